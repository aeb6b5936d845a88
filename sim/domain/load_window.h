// Expert load summed over a stretch of steps: what placement policies plan from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace epsim {

class Affinity;
struct TokenSample;

// Counts are routed assignments (tokens x top-k), MoE layers only, in model order. `batches` rows, where a source has
// them, hold the same load batch by batch; their sum is the window.
class LoadWindow {
 public:
  LoadWindow() = default;
  LoadWindow(int layers, int experts);

  int layers() const { return layers_; }
  int experts() const { return experts_; }
  std::span<double> layer(int l) { return {sum_.data() + static_cast<std::size_t>(l) * experts_, size()}; }
  std::span<const double> layer(int l) const { return {sum_.data() + static_cast<std::size_t>(l) * experts_, size()}; }
  double total(int l) const;

  // Per-batch loads, [layer][expert][batch] (batch fastest); 0 batches when the source has only sums. Adding a batch
  // also adds it to the window; `counts` is [layer][expert].
  int batches() const { return batches_; }
  void reserve_batches(int count);
  void add_batch(std::span<const float> counts);
  // `n` batches, [batch][layer][expert], added one after another. A batch alone touches a page of memory for every
  // expert, so sixteen at a time are several times faster.
  void add_batches(std::span<const float> counts, int n);
  std::span<const float> batches_of(int l, int e) const;

  // Which experts serve the same tokens (sim/domain/affinity.h); null when the source has loads only.
  const std::shared_ptr<const Affinity>& affinity() const { return affinity_; }
  void set_affinity(std::shared_ptr<const Affinity> affinity);
  const TokenSample* tokens() const;  // of that affinity; null where there are none

 private:
  std::size_t size() const { return static_cast<std::size_t>(experts_); }
  int layers_ = 0, experts_ = 0, batches_ = 0, capacity_ = 0;
  std::vector<double> sum_;
  std::vector<float> by_batch_;
  std::shared_ptr<const Affinity> affinity_;
};

// mean / max of the values; 1 when all are zero (physics: a zero-load layer counts as balanced).
double balancedness(std::span<const double> loads);

}  // namespace epsim
