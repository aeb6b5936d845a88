# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # A placement policy of your own against EPLB and CRAFT
#
# The policy gives each GPU one copy: of the hottest experts of the layer, each on a GPU that does not hold it yet, the
# least loaded first. All policies get the same requests, the same routing, and pay for copies with KV room.

# %%
import sys

import epsim
import numpy as np

scenario = epsim.load(sys.argv[1] if len(sys.argv) > 1 else "experiments/quickstart/deepseek-r1-p4de.yaml",
                      {"requests.count": 64, "requests.rate": "1/s"})


# %%
@epsim.policy
def hot_to_cold(loads, shape):
    """One copy per GPU: the hottest experts, each to the GPU that has least to do and lacks it."""
    per_gpu = shape.experts // shape.gpus
    slots = np.empty((shape.layers, shape.gpus, per_gpu + 1), int)
    slots[:, :, :-1] = np.arange(shape.experts).reshape(shape.gpus, per_gpu)
    for layer, load in enumerate(loads):
        hottest = list(np.argsort(-load, kind="stable")[: shape.gpus])
        for gpu in np.argsort(load.reshape(shape.gpus, per_gpu).sum(axis=1), kind="stable"):
            expert = next((e for e in hottest if e // per_gpu != gpu), hottest[0])
            hottest.remove(expert)
            slots[layer, gpu, -1] = expert
    return slots


# %%
compared = epsim.compare(scenario, ["base", hot_to_cold, "eplb", "craft"])
print(compared)

# %%
for label in compared:
    run = compared[label]
    busy = run.maps["gpu_expert_busy_s"]  # [MoE layers, GPUs], seconds
    print(f"{label:12} mean over slowest GPU, mean of layers: {(busy.mean(axis=1) / busy.max(axis=1)).mean():.3f}, "
          f"KV lost to copies: {100 * run.kv_lost_to_copies_share:.1f} %")
