// Dense products, alone and beside a copy from the host.
#include <algorithm>

#include "calibration/cuda/lt_product.cuh"
#include "calibration/cuda/workload.cuh"
#include "calibration/measure/numbers.h"

namespace epsim::measure {
namespace {

constexpr std::uint64_t kInputSeed = 31, kWeightSeed = 32;

// Product of random matrices over rotating sets; T is the raw type of the operands.
template <class T>
class Product {
 public:
  Product(CudaContext& context, std::int64_t m, std::int64_t n, std::int64_t k, int sets)
      : context_(context),
        m_(m),
        n_(n),
        k_(k),
        out_(static_cast<std::size_t>(m * n)),
        product_(context.cublas_lt, {m, n, k, kFp8 ? CUDA_R_8F_E4M3 : CUDA_R_16BF, CUDA_R_16BF},
                 context.workspace.bytes()) {
    for (int s = 0; s < sets; ++s) {
      a_.emplace_back(static_cast<std::size_t>(m * k));
      w_.emplace_back(static_cast<std::size_t>(n * k));
      fill(a_.back(), kInputSeed);
      fill(w_.back(), kWeightSeed);
    }
  }
  static double bytes(double m, double n, double k) { return (m * k + n * k) * sizeof(T); }

  void run(int set) const {
    const auto s = static_cast<std::size_t>(set);
    product_.run(a_[s].data(), w_[s].data(), out_.data(), 1.0f, context_.workspace, context_.stream);
  }
  void poison() const { cuda_check(cudaMemsetAsync(out_.data(), 0xff, out_.bytes(), context_.stream), "poison"); }
  template <class Read>
  CheckReport compare(Read read) const {
    OutputError error;
    for (const Sample& at : sample_outputs(m_, n_, 32, 1)) {
      const auto drawn = [](std::uint64_t seed, std::int64_t i) {
        return static_cast<double>(random_value(seed, static_cast<std::uint64_t>(i), kFp8 ? kFp8Steps : kBf16Steps));
      };
      const double expected = dot_reference(
          k_, [&](auto i) { return drawn(kInputSeed, at.row * k_ + i); },
          [&](auto i) { return drawn(kWeightSeed, at.column * k_ + i); });
      const Bf16 bits = read(out_.data(), static_cast<std::size_t>(at.row * n_ + at.column));
      error.add(bf16_value(bits), expected, "row " + std::to_string(at.row) + " column " + std::to_string(at.column));
    }
    return error.report(kFp8 ? kFp8Bound : kBf16Bound);
  }

 private:
  static constexpr bool kFp8 = sizeof(T) == 1;
  void fill(const Buffer<T>& buffer, std::uint64_t seed) {
    if constexpr (kFp8) {
      fill_fp8(buffer.data(), buffer.size(), seed, context_.stream);
    } else {
      fill_bf16(buffer.data(), buffer.size(), seed, context_.stream);
    }
  }
  CudaContext& context_;
  std::int64_t m_, n_, k_;
  Buffer<Bf16> out_;
  std::vector<Buffer<T>> a_, w_;
  LtProduct product_;
};

struct Sizes {
  std::int64_t m, n, k;
  explicit Sizes(const PlannedPoint& p)
      : m(static_cast<std::int64_t>(p.value("m"))),
        n(static_cast<std::int64_t>(p.value("n"))),
        k(static_cast<std::int64_t>(p.value("k"))) {}
};

template <class T>
class Gemm : public CudaWorkload {
 public:
  Gemm(CudaContext& context, const Sizes& s)
      : CudaWorkload(context),
        product_(context, s.m, s.n, s.k,
                 choose_sets(
                     Product<T>::bytes(static_cast<double>(s.m), static_cast<double>(s.n), static_cast<double>(s.k)))) {
    synchronize();
  }
  std::vector<std::string> kernels() const override { return {"cublaslt"}; }

 protected:
  void enqueue(std::size_t, int set) override { product_.run(set); }
  void poison() override { product_.poison(); }
  CheckReport compare(std::size_t) override {
    return product_.compare([this](const Bf16* out, std::size_t i) { return read(out, i); });
  }

 private:
  Product<T> product_;
};

// Products on one stream and copies from the host on another. One is timed; the other one is kept running for at least
// as long, and what is timed begins only when it runs.
class Interference : public CudaWorkload {
 public:
  Interference(CudaContext& context, const Sizes& s, std::size_t bytes, bool time_copy)
      : CudaWorkload(context),
        time_copy_(time_copy),
        host_(bytes, Place::kPinnedHost),
        device_(bytes),
        product_(context, s.m, s.n, s.k,
                 choose_sets(Product<Bf16>::bytes(static_cast<double>(s.m), static_cast<double>(s.n),
                                                  static_cast<double>(s.k)))) {
    synchronize();
    one_product_ = alone([this] { product_.run(0); }, context.stream);
    one_copy_ = alone([this] { copy(); }, context.copy_stream);
  }
  std::vector<std::string> kernels() const override { return {time_copy_ ? "copy" : "cublaslt"}; }

  Seconds time(std::size_t, int launches) override {
    const Seconds own = (time_copy_ ? one_copy_ : one_product_) * launches;
    const Seconds other = time_copy_ ? one_product_ : one_copy_;
    // Twice as long as the timed part takes alone, because both slow each other down.
    const int others = std::min(2000, static_cast<int>(2 * (own / other)) + 2);
    const cudaStream_t timed = time_copy_ ? context_.copy_stream : context_.stream;
    const cudaStream_t beside = time_copy_ ? context_.stream : context_.copy_stream;
    spin_kernel(20'000 + std::int64_t{10'000} * (launches + others), beside);
    cuda_check(cudaEventRecord(begun_, beside), "cudaEventRecord");
    cuda_check(cudaStreamWaitEvent(timed, begun_, 0), "cudaStreamWaitEvent");
    for (int i = 0; i < others; ++i) {
      time_copy_ ? product_.run(i % sets_) : copy();
    }
    cuda_check(cudaEventRecord(context_.start, timed), "cudaEventRecord");
    for (int i = 0; i < launches; ++i) {
      time_copy_ ? copy() : product_.run(i % sets_);
    }
    cuda_check(cudaEventRecord(context_.stop, timed), "cudaEventRecord");
    synchronize();
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, context_.start, context_.stop), "cudaEventElapsedTime");
    return Seconds(milliseconds * 1e-3);
  }

 protected:
  void enqueue(std::size_t, int set) override {
    product_.run(set);
    copy();
  }
  void poison() override { product_.poison(); }
  CheckReport compare(std::size_t) override {
    return product_.compare([this](const Bf16* out, std::size_t i) { return read(out, i); });
  }

 private:
  void copy() {
    cuda_check(
        cudaMemcpyAsync(device_.data(), host_.data(), device_.bytes(), cudaMemcpyHostToDevice, context_.copy_stream),
        "copy from the host");
  }
  template <class Call>
  Seconds alone(Call call, cudaStream_t stream) {
    call();  // warm
    cuda_check(cudaEventRecord(context_.start, stream), "cudaEventRecord");
    call();
    cuda_check(cudaEventRecord(context_.stop, stream), "cudaEventRecord");
    synchronize();
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, context_.start, context_.stop), "cudaEventElapsedTime");
    return Seconds(std::max(1e-6, milliseconds * 1e-3));
  }

  bool time_copy_;
  Buffer<std::uint8_t> host_, device_;
  Product<Bf16> product_;
  Event begun_;
  Seconds one_product_{0}, one_copy_{0};
};

}  // namespace

std::unique_ptr<Workload> make_gemm_workload(CudaContext& context, const PlannedPoint& point) {
  const Sizes sizes(point);
  if (point.op->name == "dense_gemm_fp8") {
    return std::make_unique<Gemm<std::uint8_t>>(context, sizes);
  }
  return std::make_unique<Gemm<Bf16>>(context, sizes);
}

std::unique_ptr<Workload> make_interference_workload(CudaContext& context, const PlannedPoint& point) {
  return std::make_unique<Interference>(context, Sizes(point), static_cast<std::size_t>(point.value("bytes")),
                                        point.op->name == "copy_beside_gemm");
}

}  // namespace epsim::measure
