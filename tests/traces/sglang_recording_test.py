"""sglang_recording.py: dumps of SGLang's recorder become files that `epsim trace import` reads.

usage: sglang_recording_test.py EPSIM REPOSITORY. The conversion is tested on stand-ins for tensors; where PyTorch is
installed, on files that it saved as well.
"""
import csv
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

EPSIM, REPOSITORY = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(REPOSITORY / "traces/import"))
import sglang_recording  # noqa: E402


class Tensor:
    """What the script uses of a torch.Tensor."""

    def __init__(self, values):
        self.values = values

    @property
    def shape(self):
        out, inner = [], self.values
        while isinstance(inner, list):
            out.append(len(inner))
            inner = inner[0]
        return tuple(out)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, at):
        return Tensor(self.values[at])

    def tolist(self):
        return self.values


# Three passes of three layers of four experts: the first layer is dense, the second pass was never filled.
ZERO = [0, 0, 0, 0]
PASSES = [[ZERO, [4, 3, 2, 1], [1, 2, 3, 4]], [ZERO, ZERO, ZERO], [ZERO, [3, 3, 0, 0], [0, 1, 2, 3]]]
MAP = [[0, 1, 2, 3, 0]] * 3  # expert 0 has a second copy
# [layer][token][slot]: layer 0 dense, two experts in three slots, the third token fills the batch up.
NONE = [-1, -1, -1]
IDS = [[NONE, NONE, NONE], [[0, 1, -1], [4, 2, -1], NONE], [[2, 3, -1], [1, 0, -1], NONE]]


def stat(counts, tensor=Tensor):
    return {"rank": 0, "logical_count": tensor(counts), "average_utilization_rate_over_window": None}


def passes(counts, tensor=Tensor):
    records = [{"forward_pass_id": 7 + i, "rank": 3, "gatherer_key": "primary", "global_physical_count": tensor(table)}
               for i, table in enumerate(counts)]
    return {"records": records, "last_physical_to_logical_map": tensor(MAP)}


def tokens(positions, lengths, ids=IDS, tensor=Tensor):
    return {"forward_pass_id": 11, "rank": 0, "positions": positions, "extend_seq_lens": lengths, "forward_mode": 1,
            "topk_ids_of_layer": tensor(ids)}


class Recording(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.stem = pathlib.Path(self.folder.name) / "dump"

    def tearDown(self):
        self.folder.cleanup()

    def counts(self):
        with gzip.open(f"{self.stem}.csv.gz", "rt") as file:
            return [",".join(line) for line in csv.reader(file)]

    def imported(self, arguments):
        """What `epsim trace import` makes of the files, as `epsim trace info --json` tells it."""
        words = [w if w != "K" else "2" for w in arguments.split()]
        target = f"{self.stem}.h5"
        subprocess.run([EPSIM, "trace", "import", *words, "-o", target], check=True, stdout=subprocess.DEVNULL)
        return target, json.loads(subprocess.run([EPSIM, "trace", "info", target, "--json"], check=True,
                                                 stdout=subprocess.PIPE,
                                                 stderr=subprocess.DEVNULL).stdout)

    def text(self, trace, format):
        return subprocess.run([EPSIM, "trace", "convert", trace, "--format", format, "-o", "-"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def refuses(self, dump, part):
        with self.assertRaisesRegex(sglang_recording.BadDump, part):
            sglang_recording.export(dump, self.stem)

    def test_stat_keeps_filled_passes_and_layers_with_experts(self):
        arguments = sglang_recording.export(stat(PASSES), self.stem)
        self.assertEqual(self.counts(), ["pass,layer,e0,e1,e2,e3", "0,1,4,3,2,1", "0,2,1,2,3,4", "2,1,3,3,0,0",
                                         "2,2,0,1,2,3"])
        trace, info = self.imported(arguments)
        self.assertEqual((info["layers"], info["experts"], info["load_rows"]), (2, 4, 2))
        self.assertIn("0,1,4,3,2,1", self.text(trace, "wide_csv"))

    def test_stat_of_one_table(self):
        sglang_recording.export(stat(PASSES[0]), self.stem)
        self.assertEqual(self.counts(), ["pass,layer,e0,e1,e2,e3", "0,1,4,3,2,1", "0,2,1,2,3,4"])

    def test_per_pass_adds_copies_up_and_keeps_idle_passes(self):
        arguments = sglang_recording.export(
            passes([[[0] * 5, [2, 3, 2, 1, 2], [1, 1, 3, 4, 1]], [[0] * 5] * 3]), self.stem)
        self.assertEqual(self.counts(), ["forward_pass_id,rank,layer,e0,e1,e2,e3", "7,3,1,4,3,2,1", "7,3,2,2,1,3,4",
                                         "8,3,1,0,0,0,0", "8,3,2,0,0,0,0"])
        trace, _ = self.imported(arguments)
        self.assertEqual(self.text(trace, "wide_csv").splitlines(), self.counts())

    def test_per_token_tells_requests_apart(self):
        dump = {"records": [tokens([0, 1, 0], [2]), tokens([2, 5, 0], None)], "last_physical_to_logical_map": Tensor(MAP)}
        arguments = sglang_recording.export(dump, self.stem)
        trace, info = self.imported(arguments)
        self.assertEqual((info["layers"], info["experts"], info["top_k"]), (2, 4, 2))
        # Physical 4 is another copy of expert 0.
        two = ["0,1,0,1", "0,2,2,3", "1,1,0,2", "1,2,1,0"]
        self.assertEqual(self.text(trace, "token_csv").splitlines(),
                         ["token,layer,e0,e1", *two, *(str(int(line[0]) + 2) + line[1:] for line in two)])
        table = pathlib.Path(f"{self.stem}.sequences.csv").read_text().splitlines()
        # A prompt of two tokens, then the next token of two requests.
        self.assertEqual(table[1:], ["11,0,1,0,2,0,1", "11,0,1,2,1,2,2", "11,0,1,3,1,5,5"])

    def test_dumps_that_hold_nothing_or_contradict_themselves(self):
        self.refuses({"a": 1}, "not a dump of SGLang")
        self.refuses(stat([[ZERO] * 3]), "all counts are zero")
        self.refuses({"records": [], "last_physical_to_logical_map": Tensor(MAP)}, "nothing was recorded")
        self.refuses(passes([[[1] * 9] * 3]), "differ in shape")
        for record, part in [(tokens([0], None), "do not fit"), (tokens([0, 1, 0], [4]), "do not fit"),
                             (tokens([0, 1, 0], None, [[NONE] * 3] * 3), "no token"),
                             (tokens([0, 1, 0], None, IDS[1:]), "differ in layers")]:
            self.refuses({"records": [record], "last_physical_to_logical_map": Tensor(MAP)}, part)

    def test_a_saved_dump(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        torch.save(stat(PASSES, torch.tensor), f"{self.stem}.pt")
        script = REPOSITORY / "traces/import/sglang_recording.py"
        out = subprocess.run([sys.executable, script, f"{self.stem}.pt"], check=True, stdout=subprocess.PIPE, text=True)
        self.assertIn(f"epsim trace import {self.stem}.csv.gz", out.stdout)
        self.assertEqual(self.counts()[1], "0,1,4,3,2,1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
