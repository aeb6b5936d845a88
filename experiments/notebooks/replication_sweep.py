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
runs = [epsim.run(scenario, {"policy": "craft", "policies.craft.replication_factor": factor}) for factor in factors]
for factor, run in zip(factors, runs):
    print(f"{factor} copies a GPU: mean TTFT {run.ttft_mean_ms:8.1f} ms, mean TPOT {run.tpot_mean_ms:6.1f} ms, "
          f"KV lost {100 * run.kv_lost_to_copies_share:4.1f} %")

# %%
import matplotlib

matplotlib.use("Agg" if len(sys.argv) > 2 else matplotlib.get_backend())
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
left.plot(factors, [run.ttft_mean_ms for run in runs], "o-")
left.set(xlabel="copies on a GPU", ylabel="mean TTFT (ms)")
right.plot(factors, [100 * run.kv_lost_to_copies_share for run in runs], "o-")
right.set(xlabel="copies on a GPU", ylabel="KV room lost (%)")
figure.tight_layout()
figure.savefig(sys.argv[2]) if len(sys.argv) > 2 else plt.show()
