#!/usr/bin/env python3
"""Rewrites dumps of SGLang's expert distribution recorder as files that `epsim trace import` reads.

    python3 sglang_recording.py expert_distribution_recorder_*.pt

PyTorch reads the dumps, as data: torch.load(weights_only=True) runs nothing of them. Beside each dump appear
  NAME.csv.gz                  modes stat, stat_approx and per_pass: counts, a line per pass and layer
  NAME.npy, NAME.sequences.csv mode per_token: expert ids [token][layer][k], and the sequences of the tokens
and the command that imports them is printed. --out FOLDER writes them there.

Source: sgl-project/sglang, python/sglang/srt/eplb/expert_distribution.py at 02295fe (0.5; before 0.4.8 in managers/).
"""
import argparse
import array
import csv
import gzip
import pathlib
import sys


class BadDump(Exception):
    pass


def rows(tensor):
    """A tensor as lists of numbers."""
    return tensor.tolist() if hasattr(tensor, "tolist") else tensor


def layers_with(tables):
    """Layers, of tables [layer][expert], that have load in any of them: the others are dense."""
    found = {layer for table in tables for layer, row in enumerate(rows(table)) if any(row)}
    if not found:
        raise BadDump("all counts are zero: nothing was recorded")
    return sorted(found)


def write_counts(path, labels, passes, layers):
    """passes: for each the values of the labels, and its table [layer][expert]."""
    with gzip.open(path, "wt", newline="", compresslevel=1) as out:
        lines = csv.writer(out, lineterminator="\n")
        for i, (values, table) in enumerate(passes):
            table = rows(table)
            if i == 0:
                lines.writerow([*labels, "layer", *(f"e{e}" for e in range(len(table[0])))])
            lines.writerows([*values, layer, *table[layer]] for layer in layers)


def export_stat(counts, stem):
    """logical_count: [pass][layer][expert], or one table. Passes that the buffer did not hold are all zero."""
    tables = counts if len(counts.shape) == 3 else [counts]
    layers = layers_with(tables)
    filled = (([p], table) for p, table in enumerate(tables) if any(any(row) for row in rows(table)))
    path = f"{stem}.csv.gz"
    write_counts(path, ["pass"], filled, layers)
    return f"{path} --top-k K --model-layers {len(tables[0])}"


def export_passes(records, logical, stem):
    """global_physical_count of every pass, [layer][physical expert]; copies of an expert are added up."""
    experts = max(max(row) for row in logical) + 1

    def table(record):
        counts = rows(record["global_physical_count"])
        if [len(row) for row in counts] != [len(row) for row in logical]:
            raise BadDump("global_physical_count and last_physical_to_logical_map differ in shape")
        out = [[0] * experts for _ in logical]
        for layer, row in enumerate(counts):
            for physical, count in enumerate(row):
                out[layer][logical[layer][physical]] += count
        return out

    layers = layers_with(table(record) for record in records)
    path = f"{stem}.csv.gz"
    passes = (([record["forward_pass_id"], record["rank"]], table(record)) for record in records)
    write_counts(path, ["forward_pass_id", "rank"], passes, layers)
    return f"{path} --top-k K --model-layers {len(logical)}"


def first_tokens(record, tokens):
    """Tokens that start a request: those of extend_seq_lens; without it (decoding), and beyond it, each token."""
    lengths = rows(record["extend_seq_lens"]) or []
    if sum(lengths) > tokens or len(rows(record["positions"])) != tokens:
        raise BadDump("the requests and positions of a record do not fit its tokens")
    starts = {sum(lengths[:i]) for i in range(len(lengths))}
    return starts.union(range(sum(lengths), tokens))


def export_tokens(records, logical, stem):
    """topk_ids_of_layer: [layer][token][slot]; -1 in dense layers, in unused slots, and in tokens that fill a batch."""
    layers, ids, sequences, start = [], array.array("H"), [], True
    for record in records:
        chosen = rows(record["topk_ids_of_layer"])
        if len(chosen) != len(logical):
            raise BadDump("topk_ids_of_layer and last_physical_to_logical_map differ in layers")
        positions = rows(record["positions"])
        starts = first_tokens(record, len(chosen[0]))
        for t, position in enumerate(positions):
            start = start or t in starts
            choice = [[e for e in layer[t] if e >= 0] for layer in chosen]
            used = [layer for layer, experts in enumerate(choice) if experts]
            if not used:
                continue
            if not layers:
                layers, top_k = used, max(len(choice[layer]) for layer in used)
            if used != layers or any(len(choice[layer]) != top_k for layer in used):
                raise BadDump(f"pass {record['forward_pass_id']}, token {t}: its layers or number of experts differ")
            for layer in layers:
                ids.extend(logical[layer][e] for e in choice[layer])
            if start:
                first = len(ids) // (len(layers) * top_k) - 1
                sequences.append([record[k] for k in ("forward_pass_id", "rank", "forward_mode")] + [first, 0, position, 0])
                start = False
            sequences[-1][4] += 1
            sequences[-1][6] = position
    if not layers:
        raise BadDump("no token of its records has experts")
    write_npy(f"{stem}.npy", ids, (len(ids) // (len(layers) * top_k), len(layers), top_k))
    with open(f"{stem}.sequences.csv", "w", newline="") as out:
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow("forward_pass_id rank forward_mode first_row num_tokens first_token_pos last_token_pos".split())
        lines.writerows(sequences)
    experts = max(max(row) for row in logical) + 1
    numbers = ",".join(map(str, layers))
    return (f"{stem}.npy --sequences {stem}.sequences.csv --experts {experts} --model-layers {len(logical)} "
            f"--layer-numbers {numbers}")


def write_npy(path, ids, shape):
    """NumPy's format 1.0, of 16-bit numbers."""
    header = str({"descr": "<u2", "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    if sys.byteorder == "big":
        ids.byteswap()
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        ids.tofile(out)


def export(dump, stem):
    """Writes the files of a dump; returns what `epsim trace import` takes."""
    if not isinstance(dump, dict) or ("logical_count" not in dump and "records" not in dump):
        raise BadDump("this is not a dump of SGLang's expert distribution recorder")
    if "logical_count" in dump:
        return export_stat(dump["logical_count"], stem)
    records, logical = dump["records"], rows(dump["last_physical_to_logical_map"])
    if not records:
        raise BadDump("it has no records: nothing was recorded")
    is_tokens = "topk_ids_of_layer" in records[0]
    return (export_tokens if is_tokens else export_passes)(records, logical, stem)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", nargs="+", type=pathlib.Path, metavar="DUMP.pt")
    parser.add_argument("--out", type=pathlib.Path, help="the folder for the files, instead of each dump's")
    words = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("PyTorch is not installed; run this where SGLang runs.")
    for path in words.dumps:
        stem = (words.out or path.parent) / path.stem
        stem.parent.mkdir(parents=True, exist_ok=True)
        try:
            arguments = export(torch.load(path, map_location="cpu", weights_only=True), stem)
        except BadDump as problem:
            sys.exit(f"{path}: {problem}.")
        except (IndexError, KeyError, TypeError) as problem:
            sys.exit(f"{path}: this is not laid out as SGLang 0.4.8 to 0.5 writes dumps: {problem!r}.")
        print(f"epsim trace import {arguments} -o {stem}.h5")


if __name__ == "__main__":
    main()
