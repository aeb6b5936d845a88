#include "policies/plugin/plugin_answer.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <exception>

#include "policies/plan_tools.h"
#include "sim/core/limits.h"

namespace epsim {

namespace {

void on_put(void* host, std::int32_t layer, std::int32_t gpu, const std::int32_t* experts, std::int32_t count) {
  static_cast<PluginAnswer*>(host)->put(layer, gpu, experts, count);
}

void on_fail(void* host, const char* key, const char* text) { static_cast<PluginAnswer*>(host)->fail(key, text); }

using PutHeader = std::array<std::int32_t, 3>;  // layer, GPU, count; the experts follow

}  // namespace

std::string plugin_text(const char* text) {
  std::string out;
  if (text != nullptr) {
    out.assign(text, strnlen(text, 1000));
  }
  for (char& c : out) {
    c = static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? ' ' : c;
  }
  return out;
}

PluginAnswer::PluginAnswer(const LoadWindow& load, const ClusterShape& shape)
    : layers_(load.layers()), experts_(load.experts()), gpus_(shape.gpus) {
  const auto layers = static_cast<std::size_t>(layers_), gpus = static_cast<std::size_t>(gpus_);
  slots_.assign(layers, std::vector<std::vector<int>>(gpus));
  given_.assign(layers, std::vector<bool>(gpus, false));
}

epsim_host PluginAnswer::host() { return {this, on_put, on_fail}; }

void PluginAnswer::put(std::int32_t layer, std::int32_t gpu, const std::int32_t* experts, std::int32_t count) noexcept {
  try {
    const std::lock_guard lock(turn_);
    if (!failed_) {
      take(layer, gpu, experts, count);
    }
  } catch (const PluginProblem& problem) {
    fail(problem.key.c_str(), problem.text.c_str());
  } catch (const std::exception& e) {
    fail("", e.what());
  }
}

void PluginAnswer::fail(const char* key, const char* text) noexcept {
  try {
    const std::lock_guard lock(turn_);
    if (!failed_) {
      failed_ = true;
      problem_ = {plugin_text(key),
                  text == nullptr || *text == '\0' ? "it failed and gave no reason." : plugin_text(text)};
    }
  } catch (const std::exception&) {  // no memory for the text: `failed_` is set
  }
}

void PluginAnswer::take(std::int32_t layer, std::int32_t gpu, const std::int32_t* experts, std::int32_t count) {
  if (layers_ < 0) {
    throw PluginProblem{"", "it put experts before it was asked for a plan."};
  }
  if (layer < 0 || layer >= layers_ || gpu < 0 || gpu >= gpus_ || count < 0) {
    throw PluginProblem{"", fmt::format("it put {} experts on GPU {} in layer {}; there are {} GPUs and {} layers.",
                                        count, gpu, layer, gpus_, layers_)};
  }
  const auto l = static_cast<std::size_t>(layer), g = static_cast<std::size_t>(gpu);
  if (given_[l][g]) {
    throw PluginProblem{"", fmt::format("it filled GPU {} in layer {} twice.", gpu, layer)};
  }
  slots_used_ += count;
  if (slots_used_ > limits::kSlots.most) {
    throw PluginProblem{"", fmt::format("it put {} experts on GPU {} in layer {}; a plan has at most {} slots.", count,
                                        gpu, layer, limits::kSlots.most)};
  }
  if (count > 0 && experts == nullptr) {
    throw PluginProblem{
        "", fmt::format("it put {} experts on GPU {} in layer {} and gave a null pointer.", count, gpu, layer)};
  }
  for (std::int32_t i = 0; i < count; ++i) {
    if (experts[i] < 0 || experts[i] >= experts_) {
      throw PluginProblem{"", fmt::format("it put expert {} on GPU {} in layer {}; experts are 0..{}.", experts[i], gpu,
                                          layer, experts_ - 1)};
    }
  }
  given_[l][g] = true;
  slots_[l][g].assign(experts, experts + count);
}

void PluginAnswer::check() const {
  if (failed_) {
    throw PluginProblem(problem_);
  }
}

PlacementPlan PluginAnswer::plan(const std::string& name) const {
  PlacementPlan out{.policy = name, .experts = experts_, .gpus = gpus_, .layers = {}};
  for (std::size_t l = 0; l < slots_.size(); ++l) {
    LayerPlan layer = layer_of_gpus(slots_[l]);
    const std::vector<int> copies = copies_by_expert(layer, out.experts);
    for (std::size_t e = 0; e < copies.size(); ++e) {
      if (copies[e] == 0) {
        throw PluginProblem{"", fmt::format("it put expert {} on no GPU in layer {}.", e, l)};
      }
    }
    out.layers.push_back(std::move(layer));
  }
  return out;
}

std::string PluginAnswer::bytes() const {
  std::string out;
  const auto add = [&](const void* from, std::size_t size) { out.append(static_cast<const char*>(from), size); };
  for (std::size_t l = 0; l < slots_.size(); ++l) {
    for (std::size_t g = 0; g < slots_[l].size(); ++g) {
      const std::vector<int>& experts = slots_[l][g];
      const PutHeader header = {static_cast<std::int32_t>(l), static_cast<std::int32_t>(g),
                                static_cast<std::int32_t>(experts.size())};
      add(header.data(), sizeof header);
      add(experts.data(), experts.size() * sizeof(int));
    }
  }
  return out;
}

void PluginAnswer::put_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    PutHeader header{};
    if (bytes.size() < sizeof header) {
      return fail("", "its process sent a damaged answer.");
    }
    std::memcpy(header.data(), bytes.data(), sizeof header);
    bytes.remove_prefix(sizeof header);
    const auto count = static_cast<std::size_t>(std::max(header[2], 0));
    if (bytes.size() / sizeof(std::int32_t) < count) {
      return fail("", "its process sent a damaged answer.");
    }
    std::vector<std::int32_t> experts(count);
    if (count > 0) {  // data() of an empty vector may be null
      std::memcpy(experts.data(), bytes.data(), count * sizeof(std::int32_t));
    }
    bytes.remove_prefix(count * sizeof(std::int32_t));
    put(header[0], header[1], experts.data(), header[2]);
  }
}

}  // namespace epsim
