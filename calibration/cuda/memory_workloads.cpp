// Copies inside device memory, copies to and from the host and to a second GPU.
#include <algorithm>
#include <cstring>

#include "calibration/cuda/workload.cuh"
#include "calibration/measure/numbers.h"

namespace epsim::measure {
namespace {

constexpr std::uint64_t kSeed = 11;

// Bit by bit: nothing is rounded here, so that one wrong word is infinitely wrong.
CheckReport compare_words(std::span<const std::uint64_t> words, std::uint64_t seed, std::uint64_t first) {
  OutputError error;
  for (std::size_t i = 0; i < words.size(); ++i) {
    error.add(words[i] == mix_bits(seed + first + i) ? 0 : 1, 0, "word " + std::to_string(first + i));
  }
  return error.report(0);
}

class Copy : public CudaWorkload {
 public:
  Copy(CudaContext& context, std::size_t bytes) : CudaWorkload(context), words_(bytes / 8) {
    choose_sets(2.0 * static_cast<double>(bytes));
    for (int s = 0; s < sets_; ++s) {
      from_.emplace_back(words_);
      to_.emplace_back(words_);
      fill_words(from_.back().data(), words_, kSeed, context.stream);
    }
    synchronize();
  }

 protected:
  void enqueue(std::size_t, int set) override {
    const auto s = static_cast<std::size_t>(set);
    cuda_check(cudaMemcpyAsync(to_[s].data(), from_[s].data(), words_ * 8, cudaMemcpyDeviceToDevice, context_.stream),
               "copy inside the device");
  }
  void poison() override { cuda_check(cudaMemsetAsync(to_[0].data(), 0xff, words_ * 8, context_.stream), "poison"); }
  CheckReport compare(std::size_t) override {
    const std::size_t some = std::min<std::size_t>(words_, 4096);
    const CheckReport head = compare_words(read(to_[0].data(), 0, some), kSeed, 0);
    return head.good() ? compare_words(read(to_[0].data(), words_ - some, some), kSeed, words_ - some) : head;
  }

 private:
  std::size_t words_;
  std::vector<Buffer<std::uint64_t>> from_, to_;
};

// Between pinned host memory and the GPU, in either direction.
class HostCopy : public CudaWorkload {
 public:
  HostCopy(CudaContext& context, std::size_t bytes, bool to_device)
      : CudaWorkload(context), words_(bytes / 8), to_device_(to_device), host_(words_, Place::kPinnedHost) {
    choose_sets(static_cast<double>(bytes));
    for (int s = 0; s < sets_; ++s) {
      device_.emplace_back(words_);
      fill_words(device_.back().data(), words_, kSeed, context.stream);
    }
    for (std::size_t i = 0; i < words_; ++i) {
      host_.data()[i] = mix_bits(kSeed + i);
    }
    synchronize();
  }

 protected:
  void enqueue(std::size_t, int set) override {
    std::uint64_t* device = device_[static_cast<std::size_t>(set)].data();
    const cudaError_t status =
        to_device_ ? cudaMemcpyAsync(device, host_.data(), words_ * 8, cudaMemcpyHostToDevice, context_.stream)
                   : cudaMemcpyAsync(host_.data(), device, words_ * 8, cudaMemcpyDeviceToHost, context_.stream);
    cuda_check(status, "copy to or from the host");
  }
  void poison() override {
    to_device_ ? cuda_check(cudaMemsetAsync(device_[0].data(), 0xff, words_ * 8, context_.stream), "poison")
               : static_cast<void>(std::memset(host_.data(), 0xff, words_ * 8));
    cuda_check(cudaDeviceSynchronize(), "poison");
  }
  CheckReport compare(std::size_t) override {
    const std::size_t some = std::min<std::size_t>(words_, 4096), last = words_ - some;
    if (!to_device_) {
      return compare_words({host_.data() + last, some}, kSeed, last);
    }
    return compare_words(read(device_[0].data(), last, some), kSeed, last);
  }

 private:
  std::size_t words_;
  bool to_device_;
  Buffer<std::uint64_t> host_;
  std::vector<Buffer<std::uint64_t>> device_;
};

// From GPU 0 to GPU 1, by the direct path where the machine has one.
class PeerCopy : public CudaWorkload {
 public:
  PeerCopy(CudaContext& context, std::size_t bytes) : CudaWorkload(context), words_(bytes / 8), from_(words_) {
    int direct = 0;
    cuda_check(cudaDeviceCanAccessPeer(&direct, context.gpu, peer_), "cudaDeviceCanAccessPeer");
    if (direct != 0) {
      const cudaError_t status = cudaDeviceEnablePeerAccess(peer_, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
      } else {
        cuda_check(status, "cudaDeviceEnablePeerAccess");
      }
    }
    name_ = direct != 0 ? "peer_direct" : "peer_through_host";
    fill_words(from_.data(), words_, kSeed, context.stream);
    synchronize();
    on_peer([&] { to_ = Buffer<std::uint64_t>(words_); });
  }
  ~PeerCopy() override {
    cudaSetDevice(peer_);
    to_ = Buffer<std::uint64_t>();
    cudaSetDevice(context_.gpu);
  }
  std::vector<std::string> kernels() const override { return {name_}; }

 protected:
  void enqueue(std::size_t, int) override {
    cuda_check(cudaMemcpyPeerAsync(to_.data(), peer_, from_.data(), context_.gpu, words_ * 8, context_.stream),
               "copy to the peer");
  }
  void poison() override {
    on_peer([&] {
      cuda_check(cudaMemset(to_.data(), 0xff, words_ * 8), "poison");
      cuda_check(cudaDeviceSynchronize(), "poison");
    });
  }
  CheckReport compare(std::size_t) override {
    const std::size_t some = std::min<std::size_t>(words_, 4096), last = words_ - some;
    return compare_words(read(to_.data(), last, some), kSeed, last);
  }

 private:
  template <class Call>
  void on_peer(Call call) {
    cuda_check(cudaSetDevice(peer_), "cudaSetDevice");
    call();
    cuda_check(cudaSetDevice(context_.gpu), "cudaSetDevice");
  }
  static constexpr int peer_ = 1;
  std::size_t words_;
  std::string name_;
  Buffer<std::uint64_t> from_, to_;
};

}  // namespace

std::unique_ptr<Workload> make_memory_workload(CudaContext& context, const PlannedPoint& point) {
  const auto bytes = static_cast<std::size_t>(point.value("bytes"));
  return std::make_unique<Copy>(context, bytes);
}

std::unique_ptr<Workload> make_transfer_workload(CudaContext& context, const PlannedPoint& point) {
  const auto bytes = static_cast<std::size_t>(point.value("bytes"));
  if (point.op->name == "peer_copy") {
    return std::make_unique<PeerCopy>(context, bytes);
  }
  return std::make_unique<HostCopy>(context, bytes, point.op->name == "host_to_device");
}

}  // namespace epsim::measure
