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

# %% [markdown]
# On `tests/data/small.yaml`, which takes seconds, this prints:
#
#>                          TTFT   TTFT    ITL   TPOT     E2E  output  balanced-    KV pool  KV pool  lost to
#>                 served   mean    p99   mean   mean    mean  tokens       ness     tokens      GiB   extras
#> #  policy        req/s     ms     ms     ms     ms       s  /s/GPU   mean/max      /rank     /GPU        %
#> ──────────────────────────────────────────────────────────────────────────────────────────────────────────
#> 1  eplb          1.124  30.26  37.49  8.556  8.556  0.1244  0.8432      0.346  4,081,589   62.280      0.3
#> 2  craft         1.124  30.32  37.67  8.557  8.557  0.1245  0.8432      0.339  4,093,109   62.456      0.0
#> 3  hot_to_cold   1.124  30.51  37.99  8.558  8.558  0.1246  0.8432      0.340  4,081,589   62.280      0.3
#> 4  base          1.124  30.50  37.98  8.559  8.559  0.1247  0.8432      0.337  4,093,877   62.468      0.0
#> 5  contiguous    1.124  30.68  38.23  8.559  8.559  0.1248  0.8432      0.332  4,093,877   62.468      0.0
#> Ranked by completed requests/s, highest first; runs within 1 % of the best of their group count as equal and
#> are ranked by mean end-to-end latency, lowest first, then in the order given.
#>
#> hot_to_cold against base: throughput 0.0 % (1.124 against 1.124 requests/s), mean TTFT 0.0 % (30.51 against
#>   30.50 ms), mean ITL 0.0 % (8.558 against 8.559 ms), mean end-to-end 0.0 % (124.6 against 124.7 ms),
#>   balancedness 0.340 against 0.337. KV pool -0.3 % (4,081,589 against 4,093,877 tokens per rank): experts take
#>   0.188 GiB more per GPU. No request waited for KV blocks in either run, so the size of the pool made no
#>   difference at this load.
#> eplb against base: throughput 0.0 % (1.124 against 1.124 requests/s), mean TTFT -0.8 % (30.26 against 30.50
#>   ms), mean ITL 0.0 % (8.556 against 8.559 ms), mean end-to-end -0.2 % (124.4 against 124.7 ms), balancedness
#>   0.346 against 0.337. KV pool -0.3 % (4,081,589 against 4,093,877 tokens per rank): experts take 0.188 GiB
#>   more per GPU. No request waited for KV blocks in either run, so the size of the pool made no difference at
#>   this load.
#> craft against base: throughput 0.0 % (1.124 against 1.124 requests/s), mean TTFT -0.6 % (30.32 against 30.50
#>   ms), mean ITL 0.0 % (8.557 against 8.559 ms), mean end-to-end -0.2 % (124.5 against 124.7 ms), balancedness
#>   0.339 against 0.337. KV pool 0.0 % (4,093,109 against 4,093,877 tokens per rank): experts take 0.012 GiB
#>   more per GPU. No request waited for KV blocks in either run, so the size of the pool made no difference at
#>   this load.
#> contiguous against base: throughput 0.0 % (1.124 against 1.124 requests/s), mean TTFT +0.6 % (30.68 against
#>   30.50 ms), mean ITL 0.0 % (8.559 against 8.559 ms), mean end-to-end +0.1 % (124.8 against 124.7 ms),
#>   balancedness 0.332 against 0.337. KV pool 0.0 % (4,093,877 against 4,093,877 tokens per rank); experts take
#>   the same GPU memory. No request waited for KV blocks in either run, so the size of the pool made no
#>   difference at this load.
#> One seed: a difference may be chance. Run --seeds 5 to see how sure this is.
#>
#> base         mean over slowest GPU, mean of layers: 0.887, KV lost to copies: 0.0 %
#> hot_to_cold  mean over slowest GPU, mean of layers: 0.923, KV lost to copies: 0.3 %
#> eplb         mean over slowest GPU, mean of layers: 0.914, KV lost to copies: 0.3 %
#> craft        mean over slowest GPU, mean of layers: 0.905, KV lost to copies: 0.0 %
#> contiguous   mean over slowest GPU, mean of layers: 0.863, KV lost to copies: 0.0 %
