# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # How many copies?
#
# More copies even out the GPUs' loads and take KV room. CRAFT with 0 to 8 copies on a GPU, on the same requests.

# %%
import sys

import epsim

scenario = epsim.load(sys.argv[1] if len(sys.argv) > 1 else "experiments/quickstart/deepseek-r1-p4de.yaml",
                      {"requests.count": 64, "requests.rate": "1/s"})

# %%
factors = [0, 1, 2, 4, 8]
vary = {"policies.craft.replication_factor": factors}
sweep = epsim.sweep(scenario, vary, "craft", only_listed=True).tables["results"]
lost = 100 * sweep["kv_lost_to_copies_share"]
for factor, ttft, tpot, share in zip(factors, sweep["ttft_mean_ms"], sweep["tpot_mean_ms"], lost):
    print(f"{factor} copies a GPU: mean TTFT {ttft:8.1f} ms, mean TPOT {tpot:6.1f} ms, KV lost {share:4.1f} %")

# %% [markdown]
# On `tests/data/small.yaml`, which takes seconds, this prints:
#
#> 0 copies a GPU: mean TTFT     30.5 ms, mean TPOT    8.6 ms, KV lost  0.0 %
#> 1 copies a GPU: mean TTFT     30.3 ms, mean TPOT    8.6 ms, KV lost  0.0 %
#> 2 copies a GPU: mean TTFT     30.3 ms, mean TPOT    8.6 ms, KV lost  0.0 %
#> 4 copies a GPU: mean TTFT     30.2 ms, mean TPOT    8.6 ms, KV lost  0.1 %
#> 8 copies a GPU: mean TTFT     30.2 ms, mean TPOT    8.6 ms, KV lost  0.2 %

# %%
import matplotlib

matplotlib.use("Agg" if len(sys.argv) > 2 else matplotlib.get_backend())
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
left.plot(factors, sweep["ttft_mean_ms"], "o-")
left.set(xlabel="copies on a GPU", ylabel="mean TTFT (ms)")
right.plot(factors, lost, "o-")
right.set(xlabel="copies on a GPU", ylabel="KV room lost (%)")
figure.tight_layout()
figure.savefig(sys.argv[2]) if len(sys.argv) > 2 else plt.show()
