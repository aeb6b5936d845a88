#include "sim/scheduler/sglang_0_5_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace epsim {
namespace {

// By the memory that nvidia-smi lists; graphs with fewer than 4 GPUs and with more.
struct GpuClass {
  double below_gib;
  std::int64_t chunk, largest_graph_of_few, largest_graph;
};
constexpr GpuClass kGpuClasses[] = {{20, 2048, 8, 8},
                                    {35, 2048, 24, 80},
                                    {60, 4096, 32, 160},
                                    {160, 8192, 256, 512},
                                    {std::numeric_limits<double>::infinity(), 16384, 512, 512}};

const GpuClass& gpu_class_of(const EngineSite& site) {
  return *std::find_if(std::begin(kGpuClasses), std::end(kGpuClasses),
                       [&](const GpuClass& c) { return to_gib(site.gpu_memory) < c.below_gib; });
}

std::string source_0_5(const EngineSite& site, const std::string& more = "") {
  return fmt::format("SGLang v0.5.9 on {}{} (server_args.py)", site.gpu, more);
}

}  // namespace

EngineDefault<std::int64_t> sglang_0_5_chunk(const EngineSite& site) {
  return {gpu_class_of(site).chunk, source_0_5(site, site.dp_ranks > 1 ? ", divided by the DP ranks" : "")};
}

EngineDefault<std::vector<std::int64_t>> sglang_0_5_graph_sizes(const EngineSite& site, const GraphWishes& wishes) {
  const GpuClass& c = gpu_class_of(site);
  const std::int64_t most = wishes.largest.value_or(site.gpus < 4 ? c.largest_graph_of_few : c.largest_graph);
  std::vector<std::int64_t> sizes;
  const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t step) {
    for (std::int64_t n = from; n <= std::min(to, most); n += step) {
      sizes.push_back(n);
    }
  };
  if (!wishes.pad) {
    add(1, most, 1);
  } else if (wishes.speculative) {
    add(1, 8, 1), add(10, 32, 2), add(40, 64, 4), add(72, 256, 8), add(272, most, 16);
  } else {
    add(1, 1, 1), add(2, 2, 1), add(4, 12, 4), add(16, 256, 8), add(272, 511, 16), add(512, most, 32);
  }
  return {sizes, source_0_5(site)};
}

EngineDefault<double> sglang_0_5_static_fraction(const EngineSite& site, const SglangReserve& reserve) {
  const auto graphs = static_cast<double>(reserve.largest_graph);
  double mib = 512 + std::max(static_cast<double>(reserve.chunk), 2048.0) * 1.5 + graphs * 2 + site.gpus / 8.0 * 1024;
  if (site.dp_ranks > 1) {
    mib += graphs * site.dp_ranks * (reserve.largest_graph > 300 ? 4.5 : 3);
  }
  const double all = to_gib(site.gpu_memory) * 1024;
  mib = all > 60 * 1024 ? std::max(mib, 10.0 * 1024) : mib;
  mib += reserve.speculative ? 2 * 1024 : 0;
  return {std::round((all - mib) / all * 1000) / 1000, source_0_5(site, fmt::format(", {} GPUs", site.gpus))};
}

EngineDefault<std::string> sglang_0_5_attention_backend(const EngineSite& site, const std::string& of_0_4) {
  return {site.blackwell() ? "trtllm_mla" : of_0_4, source_0_5(site, ", MLA")};
}

bool sglang_0_5_shares_windows(const EngineSite& site) {
  return site.model_type.empty() || site.model_type == "gpt_oss";
}

EngineDefault<double> sglang_0_5_window_share(const EngineSite& site) {
  if (!sglang_0_5_shares_windows(site)) {
    return {1.0, "SGLang v0.5.9 of this model (model_config.py, is_hybrid_swa_model)"};
  }
  return {site.blackwell() ? 1.0 : 0.8, source_0_5(site, ", windows")};
}

}  // namespace epsim
