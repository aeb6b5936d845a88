// Gate, permutation, activation and norm.
#include <cmath>
#include <map>
#include <numeric>

#include "calibration/cuda/lt_product.cuh"
#include "calibration/cuda/workload.cuh"
#include "calibration/measure/numbers.h"
#include "sim/core/rng.h"

namespace epsim::measure {
namespace {

constexpr std::uint64_t kInputSeed = 51, kWeightSeed = 52;

double drawn(std::uint64_t seed, std::int64_t index) {
  return random_value(seed, static_cast<std::uint64_t>(index), kBf16Steps);
}

// One input per rotating set and one output: what these operators have in common.
class TokenWorkload : public CudaWorkload {
 public:
  TokenWorkload(CudaContext& context, std::size_t inputs, std::size_t outputs) : CudaWorkload(context), out_(outputs) {
    choose_sets(2.0 * static_cast<double>(inputs));
    for (int s = 0; s < sets_; ++s) {
      in_.emplace_back(inputs);
      fill_bf16(in_.back().data(), inputs, kInputSeed, context.stream);
    }
    synchronize();
  }

 protected:
  void poison() override { cuda_check(cudaMemsetAsync(out_.data(), 0xff, out_.bytes(), context_.stream), "poison"); }
  const Bf16* in(int set) const { return in_[static_cast<std::size_t>(set)].data(); }
  double out_at(std::int64_t index) const { return bf16_value(read(out_.data(), static_cast<std::size_t>(index))); }

  std::vector<Buffer<Bf16>> in_;
  Buffer<Bf16> out_;
};

template <class T>
Buffer<T> on_device(const std::vector<T>& values) {
  Buffer<T> out(values.size());
  cuda_check(cudaMemcpy(out.data(), values.data(), out.bytes(), cudaMemcpyHostToDevice), "inputs");
  return out;
}

class Activation : public TokenWorkload {
 public:
  Activation(CudaContext& context, std::int64_t rows, int width)
      : TokenWorkload(context, static_cast<std::size_t>(rows * 2 * width), static_cast<std::size_t>(rows * width)),
        rows_(rows),
        width_(width) {}

 protected:
  void enqueue(std::size_t, int set) override { silu_mul(in(set), out_.data(), rows_, width_, context_.stream); }
  CheckReport compare(std::size_t) override {
    OutputError error;
    for (const Sample& at : sample_outputs(rows_, width_, 64, 1)) {
      const std::int64_t gate = at.row * 2 * width_ + at.column;
      error.add(out_at(at.row * width_ + at.column), silu(drawn(kInputSeed, gate)) * drawn(kInputSeed, gate + width_),
                "row " + std::to_string(at.row));
    }
    return error.report(kBf16Bound);
  }

 private:
  std::int64_t rows_;
  int width_;
};

class Norm : public TokenWorkload {
 public:
  Norm(CudaContext& context, std::int64_t rows, int width)
      : TokenWorkload(context, static_cast<std::size_t>(rows * width), static_cast<std::size_t>(rows * width)),
        rows_(rows),
        width_(width),
        weight_(static_cast<std::size_t>(width)) {
    fill_bf16(weight_.data(), weight_.size(), kWeightSeed, context.stream);
    synchronize();
  }

 protected:
  void enqueue(std::size_t, int set) override {
    rms_norm(in(set), weight_.data(), out_.data(), rows_, width_, context_.stream);
  }
  CheckReport compare(std::size_t) override {
    OutputError error;
    for (const Sample& at : sample_outputs(rows_, width_, 32, 1)) {
      const auto x = [&](std::int64_t i) { return drawn(kInputSeed, at.row * width_ + i); };
      const double squares = dot_reference(width_, x, x);
      error.add(out_at(at.row * width_ + at.column),
                x(at.column) / std::sqrt(squares / width_ + 1e-6) * drawn(kWeightSeed, at.column),
                "row " + std::to_string(at.row));
    }
    return error.report(kBf16Bound);
  }

 private:
  std::int64_t rows_;
  int width_;
  Buffer<Bf16> weight_;
};

// Rows to random places, and back with weights. Weights of a token sum to one, as a router's do.
class Permutation : public TokenWorkload {
 public:
  Permutation(CudaContext& context, int tokens, int width, int k, bool back)
      : TokenWorkload(context, size(tokens, width, back ? k : 1), size(tokens, width, back ? 1 : k)),
        tokens_(tokens),
        width_(width),
        k_(k),
        back_(back) {
    RandomStream random(Seed{1}, "places");
    places_.resize(size(tokens, 1, k));
    std::iota(places_.begin(), places_.end(), 0);
    random.shuffle(places_);
    place_ = on_device(places_);
    weights_ = on_device(std::vector<float>(places_.size(), 1.0f / static_cast<float>(k)));
    synchronize();
  }

 protected:
  void enqueue(std::size_t, int set) override {
    back_ ? unpermute(in(set), place_.data(), weights_.data(), out_.data(), tokens_, width_, k_, context_.stream)
          : permute(in(set), place_.data(), out_.data(), tokens_, width_, k_, context_.stream);
  }
  CheckReport compare(std::size_t) override {
    OutputError error;
    for (const Sample& at : sample_outputs(tokens_, width_, 64, 1)) {
      double sum = 0;
      for (int i = 0; i < k_; ++i) {
        const std::int64_t place = places_[static_cast<std::size_t>(at.row * k_ + i)];
        if (back_) {
          sum += drawn(kInputSeed, place * width_ + at.column) / k_;
        } else {
          error.add(out_at(place * width_ + at.column), drawn(kInputSeed, at.row * width_ + at.column),
                    "token " + std::to_string(at.row));
        }
      }
      if (back_) {
        error.add(out_at(at.row * width_ + at.column), sum, "token " + std::to_string(at.row));
      }
    }
    return error.report(back_ ? kBf16Bound : 0);
  }

 private:
  static std::size_t size(int tokens, int width, int k) {
    return static_cast<std::size_t>(tokens) * static_cast<std::size_t>(width) * static_cast<std::size_t>(k);
  }
  int tokens_, width_, k_;
  bool back_;
  std::vector<std::int32_t> places_;
  Buffer<std::int32_t> place_;
  Buffer<float> weights_;
};

// Router logits in float through cuBLASLt, then the top-k kernel.
class Gate : public TokenWorkload {
 public:
  Gate(CudaContext& context, int tokens, int hidden, int experts, int k)
      : TokenWorkload(context, static_cast<std::size_t>(tokens) * static_cast<std::size_t>(hidden), 8),
        tokens_(tokens),
        hidden_(hidden),
        experts_(experts),
        k_(k),
        weight_(static_cast<std::size_t>(experts) * static_cast<std::size_t>(hidden)),
        logits_(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(experts)),
        weights_(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(k)),
        chosen_(weights_.size()),
        product_(context.cublas_lt, {tokens, experts, hidden, CUDA_R_16BF, CUDA_R_32F}, context.workspace.bytes()) {
    fill_bf16(weight_.data(), weight_.size(), kWeightSeed, context.stream);
    synchronize();
  }
  std::vector<std::string> kernels() const override { return {"cublaslt_and_epsim_top_k"}; }

 protected:
  void enqueue(std::size_t, int set) override {
    product_.run(in(set), weight_.data(), logits_.data(), scale(), context_.workspace, context_.stream);
    top_k(logits_.data(), chosen_.data(), weights_.data(), tokens_, experts_, k_, context_.stream);
  }
  int calls() const override { return 2; }
  void poison() override {
    cuda_check(cudaMemsetAsync(logits_.data(), 0xff, logits_.bytes(), context_.stream), "poison");
    cuda_check(cudaMemsetAsync(chosen_.data(), 0xff, chosen_.bytes(), context_.stream), "poison");
    cuda_check(cudaMemsetAsync(weights_.data(), 0xff, weights_.bytes(), context_.stream), "poison");
  }
  // Logits against float64; the choice against the logits that it was made from.
  CheckReport compare(std::size_t) override {
    OutputError error;
    for (const Sample& at : sample_outputs(tokens_, experts_, 16, 1)) {
      const double sum = dot_reference(
          hidden_, [&](auto i) { return drawn(kInputSeed, at.row * hidden_ + i); },
          [&](auto i) { return drawn(kWeightSeed, at.column * hidden_ + i); });
      error.add(read(logits_.data(), static_cast<std::size_t>(at.row * experts_ + at.column)), sum * scale(),
                "logit of token " + std::to_string(at.row));
      add_choice(at.row, error);
    }
    return error.report(kBf16Bound);
  }

 private:
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(hidden_)); }
  void add_choice(std::int64_t token, OutputError& error) const {
    const auto row = static_cast<std::size_t>(token);
    const auto k = static_cast<std::size_t>(k_), count = static_cast<std::size_t>(experts_);
    const std::vector<float> logits = read(logits_.data(), row * count, count);
    const std::vector<std::int32_t> chosen = read(chosen_.data(), row * k, k);
    const std::vector<float> weights = read(weights_.data(), row * k, k);
    std::multimap<float, std::size_t, std::greater<>> order;  // equal logits stay in the order of the experts
    for (std::size_t e = 0; e < count; ++e) {
      order.insert({logits[e], e});
    }
    double total = 0;
    auto next = order.begin();
    for (std::size_t i = 0; i < k; ++i, ++next) {
      total += std::exp(static_cast<double>(next->first - order.begin()->first));
    }
    next = order.begin();
    for (std::size_t i = 0; i < k; ++i, ++next) {
      const bool right = chosen[i] == static_cast<std::int32_t>(next->second);
      const double expected = std::exp(static_cast<double>(next->first - order.begin()->first)) / total;
      error.add(right ? weights[i] : HUGE_VAL, expected,
                "choice " + std::to_string(i) + " of token " + std::to_string(token));
    }
  }

  int tokens_, hidden_, experts_, k_;
  Buffer<Bf16> weight_;
  Buffer<float> logits_, weights_;
  Buffer<std::int32_t> chosen_;
  LtProduct product_;
};

}  // namespace

std::unique_ptr<Workload> make_token_workload(CudaContext& context, const PlannedPoint& point) {
  const auto number = [&](std::string_view column) { return static_cast<int>(point.value(column)); };
  const std::string_view op = point.op->name;
  if (op == "activation") {
    return std::make_unique<Activation>(context, number("rows"), number("width"));
  }
  if (op == "norm") {
    return std::make_unique<Norm>(context, number("rows"), number("width"));
  }
  if (op == "gate") {
    return std::make_unique<Gate>(context, number("tokens"), number("hidden"), number("experts"), number("top_k"));
  }
  return std::make_unique<Permutation>(context, number("tokens"), number("hidden"), number("top_k"), op == "unpermute");
}

}  // namespace epsim::measure
