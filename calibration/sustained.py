#!/usr/bin/env python3
"""Products that are repeated for 0.4 s against the points of epsim-calibrate: what the power cap and the numbers in the
matrices add. Wants PyTorch and h5py.

usage: sustained.py POINTS.h5 > OUT.csv      (POINTS.h5: of this GPU, with dense_gemm and dense_gemm_fp8)

One row per product and kind of numbers: the point's time, and the median time after 10, 25, 50, 100, 200 and 400 ms of
load on an idle GPU, in us. numbers: grid, those of epsim-calibrate (measure/numbers.h); normal, of a normal distribution.
"""
import csv
import statistics
import sys
import time

import h5py
import torch

EDGES_MS = (10, 25, 50, 100, 200, 400)
LEAST_US = 150
PICKED = 8  # products of each type


def points(path):
    """[(fp8, m, k, n, us)] of products of LEAST_US and more, PICKED of each type from short to long."""
    out = []
    with h5py.File(path) as file:
        for name, fp8 in (("dense_gemm", False), ("dense_gemm_fp8", True)):
            table = file[name]
            rows = zip(*(table[column][:] for column in ("m", "k", "n", "time_s")))
            long = sorted((s * 1e6, int(m), int(k), int(n)) for m, k, n, s in rows if s * 1e6 > LEAST_US)
            long = [x for x in long if not fp8 or x[2] % 16 == x[3] % 16 == 0]  # what PyTorch takes
            out += [(fp8, m, k, n, us) for us, m, k, n in long[:: max(1, len(long) // PICKED)][:PICKED]]
    return out


def matrix(numbers, rows, columns, fp8):
    if numbers == "normal":
        values = torch.randn(rows, columns, device="cuda")
    else:
        steps = 8 if fp8 else 128
        values = torch.randint(-steps, steps, (rows, columns), device="cuda").float() / steps
    return values.to(torch.float8_e4m3fn if fp8 else torch.bfloat16)


def product(fp8, a, b):
    if not fp8:
        return torch.nn.functional.linear(a, b)
    one = torch.ones((), device="cuda")
    return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16)


def sustained(fp8, a, b, us):
    """Median us of the products that end between one edge and the next."""
    product(fp8, a, b)
    torch.cuda.synchronize()
    time.sleep(0.25)  # idle
    count = int(1.1e3 * EDGES_MS[-1] / us) + 1
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda._sleep(4_000_000)  # so that launches are queued
    events[0].record()
    for event in events[1:]:
        product(fp8, a, b)
        event.record()
    torch.cuda.synchronize()
    out, window, at, edges = [], [], 0.0, list(EDGES_MS)
    for before, after in zip(events, events[1:]):
        ms = before.elapsed_time(after)
        at += ms
        window.append(ms * 1e3)
        if edges and at >= edges[0]:
            out.append(round(statistics.median(window), 1))
            window = []
            edges.pop(0)
    return out


def main():
    torch.manual_seed(1)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["fp8", "m", "k", "n", "numbers", "point_us"] + [f"after_{ms}_ms" for ms in EDGES_MS])
    for fp8, m, k, n, us in points(sys.argv[1]):
        for numbers in ("grid", "normal"):
            a, b = matrix(numbers, m, k, fp8), matrix(numbers, n, k, fp8)
            out.writerow([int(fp8), m, k, n, numbers, round(us, 1)] + sustained(fp8, a, b, us))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
