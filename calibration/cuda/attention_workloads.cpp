// Attention by the kernels of this folder. They are correct and of the usual shape, not tuned: engines' kernels are
// faster, which the points' attribute `kernels` lets a reader see.
#include "calibration/cuda/kernels/arguments.h"
#include "calibration/cuda/workload.cuh"
#include "calibration/measure/numbers.h"

namespace epsim::measure {
namespace {

// The reference of one row takes the host a few microseconds a key, so that long contexts are checked in one row.
constexpr std::int64_t kFewKeys = 8192;
constexpr std::uint64_t kQuerySeed = 41, kKeySeed = 42, kValueSeed = 43;

double drawn(std::uint64_t seed, std::int64_t index) {
  return random_value(seed, static_cast<std::uint64_t>(index), kBf16Steps);
}

struct Heads {
  int batch = 0, heads = 0, kv_heads = 0, qk = 0, v = 0;
  bool latent = false;  // values are the keys' first entries
};

Heads heads_of(const PlannedPoint& p, bool decoding) {
  const auto number = [&](std::string_view column) { return static_cast<int>(p.value(column)); };
  const int batch = number("batch"), heads = number("heads");
  if (!p.op->name.starts_with("mla")) {
    return {batch, heads, number("kv_heads"), number("head_dim"), number("head_dim"), false};
  }
  return decoding ? Heads{batch, heads, 1, 576, 512, true} : Heads{batch, heads, heads, 192, 128, false};
}

// Queries, keys, values and outputs of `new` tokens for each sequence, and the comparison of one (query, head).
class Attention : public CudaWorkload {
 public:
  Attention(CudaContext& context, const Heads& h, std::int64_t fresh, std::int64_t keys)
      : CudaWorkload(context), h_(h), fresh_(fresh), keys_(keys) {
    const auto size = [&](std::int64_t tokens, int heads, int width) {
      return static_cast<std::size_t>(h.batch * tokens * heads * width);
    };
    const std::size_t queries = size(fresh, h.heads, h.qk), k = size(keys, h.kv_heads, h.qk);
    const std::size_t v = h.latent ? 0 : size(keys, h.kv_heads, h.v);
    out_ = Buffer<Bf16>(size(fresh, h.heads, h.v));
    choose_sets(2.0 * static_cast<double>(queries + k + v));
    for (int s = 0; s < sets_; ++s) {
      q_.push_back(drawn_buffer(queries, kQuerySeed));
      k_.push_back(drawn_buffer(k, kKeySeed));
      v_.push_back(drawn_buffer(v, kValueSeed));
    }
    synchronize();
  }
  std::vector<std::string> kernels() const override { return {"epsim_mma"}; }

 protected:
  void poison() override { cuda_check(cudaMemsetAsync(out_.data(), 0xff, out_.bytes(), context_.stream), "poison"); }
  CheckReport compare(std::size_t) override {
    OutputError error;
    const std::int64_t rows = h_.batch * fresh_ * h_.heads;
    std::vector<std::int64_t> sampled = {rows - 1};  // the one that sees the most keys
    if (keys_ <= kFewKeys) {
      sampled.insert(sampled.end(), {0, rows / 2});
    }
    for (const std::int64_t row : sampled) {
      const std::vector<double> expected = expected_row(row);
      const std::vector<Bf16> got = read(out_.data(), static_cast<std::size_t>(row * h_.v), expected.size());
      for (std::size_t d = 0; d < got.size(); ++d) {
        error.add(bf16_value(got[d]), expected[d], "row " + std::to_string(row) + " entry " + std::to_string(d));
      }
    }
    return error.report(kAttentionBound);
  }

  Heads h_;
  std::int64_t fresh_, keys_;
  std::vector<Buffer<Bf16>> q_, k_, v_;
  Buffer<Bf16> out_;

 private:
  Buffer<Bf16> drawn_buffer(std::size_t count, std::uint64_t seed) {
    Buffer<Bf16> out(count);
    if (count > 0) {
      fill_bf16(out.data(), count, seed, context_.stream);
    }
    return out;
  }
  std::vector<double> expected_row(std::int64_t row) const {
    const std::int64_t head = row % h_.heads, query = row / h_.heads % fresh_, sequence = row / h_.heads / fresh_;
    const std::int64_t kv = head / (h_.heads / h_.kv_heads);
    const auto line = [=, this](std::int64_t key) { return (sequence * keys_ + key) * h_.kv_heads + kv; };
    return attention_reference(
        {keys_ - fresh_ + query + 1, h_.qk, h_.v, [&](int d) { return drawn(kQuerySeed, row * h_.qk + d); },
         [&](std::int64_t key, int d) { return drawn(kKeySeed, line(key) * h_.qk + d); },
         [&](std::int64_t key, int d) {
           return h_.latent ? drawn(kKeySeed, line(key) * h_.qk + d) : drawn(kValueSeed, line(key) * h_.v + d);
         }});
  }
};

class Prefill : public Attention {
 public:
  using Attention::Attention;

 protected:
  void enqueue(std::size_t, int set) override {
    const auto s = static_cast<std::size_t>(set);
    const int fresh = static_cast<int>(fresh_), context = static_cast<int>(keys_ - fresh_);
    prefill({q_[s].data(), k_[s].data(), v_[s].data(), out_.data(), fresh, context, h_.heads, h_.kv_heads}, h_.batch,
            h_.qk, h_.v, context_.stream);
  }
};

class Decode : public Attention {
 public:
  Decode(CudaContext& context, const Heads& h, std::int64_t keys) : Attention(context, h, 1, keys) {
    arguments_.keys = static_cast<int>(keys);
    arguments_.heads = h.heads;
    arguments_.kv_heads = h.kv_heads;
    choose_splits(arguments_, h.batch, h.latent, context.facts.multiprocessors);
    const auto parts = static_cast<std::size_t>(h.batch) * static_cast<std::size_t>(h.heads * arguments_.splits);
    parts_ = Buffer<float>(parts * static_cast<std::size_t>(h.v));
    largest_ = Buffer<float>(parts);
    total_ = Buffer<float>(parts);
    arguments_.parts = parts_.data();
    arguments_.largest = largest_.data();
    arguments_.total = total_.data();
    arguments_.out = out_.data();
  }

 protected:
  void enqueue(std::size_t, int set) override {
    const auto s = static_cast<std::size_t>(set);
    arguments_.q = q_[s].data();
    arguments_.k = k_[s].data();
    arguments_.v = v_[s].data();
    decode(arguments_, h_.batch, h_.qk, h_.v, h_.latent, context_.stream);
  }
  int calls() const override { return 2; }

 private:
  DecodeArguments arguments_;
  Buffer<float> parts_, largest_, total_;
};

}  // namespace

std::unique_ptr<Workload> make_attention_workload(CudaContext& context, const PlannedPoint& point) {
  const bool decoding = point.op->name.ends_with("_decode");
  const Heads heads = heads_of(point, decoding);
  if (decoding ? !has_decode(heads.qk, heads.v, heads.latent) : !has_prefill(heads.qk, heads.v)) {
    throw MeasureFailed(FailureKind::kUnsupported, "no attention kernel for heads of these sizes");
  }
  const auto length = static_cast<std::int64_t>(point.value("length"));
  if (decoding) {
    return std::make_unique<Decode>(context, heads, length);
  }
  const bool with_context = point.op->name.ends_with("_context");
  return std::make_unique<Prefill>(context, heads, length,
                                   length + (with_context ? static_cast<std::int64_t>(point.value("context")) : 0));
}

}  // namespace epsim::measure
