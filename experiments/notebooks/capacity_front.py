# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # What does a tighter SLO cost?
#
# For each bound of TPOT the cheapest deployment that serves the demand on each kind of node: the front of cost against
# latency. Finished runs of an answer are kept in its folder, so other prices cost nothing.

# %%
import sys

import epsim

demand = {"model": "kimi-k2", "rate": "20/s", "input_tokens": 4096, "output_tokens": 500,
          "nodes": ["p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"]}
bounds_ms = [30, 40, 60, 100]
if len(sys.argv) > 1:  # a small model, for a first look
    demand = {"model": "olmoe-1b-7b", "dtypes": "bf16", "rate": "300/s", "input_tokens": 1024, "output_tokens": 16,
              "nodes": ["p4de.24xlarge", "p5.48xlarge"], "sizes": 1}
    bounds_ms = [1.5, 2, 50]

# %%
answers = {bound: epsim.capacity(**demand, ttft="p99=2s", tpot=f"mean={bound}ms", quick=True) for bound in bounds_ms}
front = {}  # (node, bound): USD per hour of its cheapest deployment
for bound, answer in answers.items():
    table = answer.tables["deployments"]
    for node, cost in zip(table["node"], table["usd_per_hour"]):
        front[node, bound] = min(cost, front.get((node, bound), cost))
    best = "nothing in the search space"
    if answer.feasible:
        best = f"{table['nodes_of_deployment'][0]:.0f} x {table['node'][0]}, {table['usd_per_hour'][0]:.2f} USD/h"
    print(f"TPOT mean < {bound} ms: {best}")

# %% [markdown]
# With the small model it prints:
#
#> TPOT mean < 1.5 ms: 3 x p5.48xlarge, 165.12 USD/h
#> TPOT mean < 2 ms: 2 x p5.48xlarge, 110.08 USD/h
#> TPOT mean < 50 ms: 2 x p4de.24xlarge, 54.89 USD/h

# %%
import matplotlib

matplotlib.use("Agg" if len(sys.argv) > 2 else matplotlib.get_backend())
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3.5))
for node in dict.fromkeys(node for node, _ in front):
    points = [(bound, cost) for (name, bound), cost in front.items() if name == node]
    axes.plot(*zip(*points), "o-", label=node)
axes.set(xlabel="bound of mean TPOT (ms)", ylabel="cost (USD/h)")
axes.legend()
figure.tight_layout()
figure.savefig(sys.argv[2]) if len(sys.argv) > 2 else plt.show()
