// What per-step policies look at and decide: who asks for which expert, and which GPU holds it in this layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace epsim {

// Routed assignments of one layer in one step, [GPU][expert]: how many tokens that live on the GPU (data parallelism)
// use the expert.
struct RequestMatrix {
  int gpus = 0, experts = 0;
  int top_k = 1;  // assignments of a token
  std::vector<std::int64_t> count;

  RequestMatrix(int gpu_count, int expert_count)
      : gpus(gpu_count),
        experts(expert_count),
        count(static_cast<std::size_t>(gpu_count) * static_cast<std::size_t>(expert_count), 0) {}
  std::int64_t& at(int gpu, int expert) { return count[offset(gpu, expert)]; }
  std::int64_t at(int gpu, int expert) const { return count[offset(gpu, expert)]; }
  std::int64_t total() const { return std::accumulate(count.begin(), count.end(), std::int64_t{0}); }
  // Sum over GPUs.
  std::int64_t of_expert(int expert) const {
    std::int64_t sum = 0;
    for (int g = 0; g < gpus; ++g) {
      sum += at(g, expert);
    }
    return sum;
  }
  std::int64_t of_gpu(int gpu) const {
    const auto row = count.begin() + static_cast<std::ptrdiff_t>(offset(gpu, 0));
    return std::accumulate(row, row + experts, std::int64_t{0});
  }
  // Tokens that live on the GPU.
  std::int64_t tokens_of(int gpu) const { return of_gpu(gpu) / top_k; }

 private:
  std::size_t offset(int gpu, int expert) const {
    return static_cast<std::size_t>(gpu) * static_cast<std::size_t>(experts) + static_cast<std::size_t>(expert);
  }
};

// Tokens that each GPU computes, [GPU][expert]: the same shape, told apart by name.
using TokenAssignment = RequestMatrix;

// Which GPUs hold each expert in one layer; every expert is at least at home.
struct Residency {
  int gpus = 0;
  int gpus_per_node = 0;               // consecutive ones
  std::vector<int> home;               // [expert]
  std::vector<std::uint8_t> resident;  // [expert][GPU], 1 = held

  Residency(std::vector<int> homes, int gpu_count)
      : gpus(gpu_count),
        gpus_per_node(gpu_count),
        home(std::move(homes)),
        resident(home.size() * static_cast<std::size_t>(gpu_count), 0) {
    for (int e = 0; e < experts(); ++e) {
      add(e, home[static_cast<std::size_t>(e)]);
    }
  }

  bool has_copies() const {
    return std::count(resident.begin(), resident.end(), 1) > static_cast<std::ptrdiff_t>(home.size());
  }
  int experts() const { return static_cast<int>(home.size()); }
  int home_of(int expert) const { return home[static_cast<std::size_t>(expert)]; }
  bool holds(int expert, int gpu) const { return resident[offset(expert, gpu)] != 0; }
  void add(int expert, int gpu) { resident[offset(expert, gpu)] = 1; }
  int copies(int expert) const {
    const auto row = resident.begin() + static_cast<std::ptrdiff_t>(offset(expert, 0));
    return std::accumulate(row, row + gpus, 0);
  }

 private:
  std::size_t offset(int expert, int gpu) const {
    return static_cast<std::size_t>(expert) * static_cast<std::size_t>(gpus) + static_cast<std::size_t>(gpu);
  }
};

// Every request computed where its token lives if the expert is resident there, else at the expert's home.
inline TokenAssignment local_or_home(const RequestMatrix& requests, const Residency& held) {
  TokenAssignment out(requests.gpus, requests.experts);
  for (int g = 0; g < requests.gpus; ++g) {
    for (int e = 0; e < requests.experts; ++e) {
      out.at(held.holds(e, g) ? g : held.home_of(e), e) += requests.at(g, e);
    }
  }
  return out;
}

// Every expert's tokens split over its copies, the remainder to the lower GPUs.
inline TokenAssignment even_split(const RequestMatrix& requests, const Residency& held) {
  TokenAssignment out(requests.gpus, requests.experts);
  for (int e = 0; e < requests.experts; ++e) {
    const std::int64_t tokens = requests.of_expert(e), copies = held.copies(e);
    std::int64_t extra = tokens % copies;
    for (int g = 0; g < requests.gpus; ++g) {
      if (held.holds(e, g)) {
        out.at(g, e) = tokens / copies + (extra-- > 0 ? 1 : 0);
      }
    }
  }
  return out;
}

// max / mean tokens over GPUs; 1 without tokens.
inline double imbalance(const TokenAssignment& tokens) {
  std::int64_t max = 0;
  for (int g = 0; g < tokens.gpus; ++g) {
    max = max < tokens.of_gpu(g) ? tokens.of_gpu(g) : max;
  }
  const std::int64_t total = tokens.total();
  return total > 0 ? static_cast<double>(max) * tokens.gpus / static_cast<double>(total) : 1.0;
}

}  // namespace epsim
