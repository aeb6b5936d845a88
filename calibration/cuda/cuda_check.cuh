// Errors of CUDA and its libraries as failures of a point, and owners for what CUDA hands out.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "calibration/measure/device.h"

namespace epsim::measure {

inline void cuda_check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) {
    return;
  }
  cudaGetLastError();  // an error that does not stick must not be found again by the next point
  const FailureKind kind = status == cudaErrorMemoryAllocation ? FailureKind::kOutOfMemory : FailureKind::kLaunch;
  throw MeasureFailed(kind, std::string(what) + ": " + cudaGetErrorString(status));
}

inline void cublas_check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) {
    return;
  }
  const FailureKind kind = status == CUBLAS_STATUS_ALLOC_FAILED    ? FailureKind::kOutOfMemory
                           : status == CUBLAS_STATUS_NOT_SUPPORTED ? FailureKind::kUnsupported
                                                                   : FailureKind::kLaunch;
  throw MeasureFailed(kind, std::string(what) + ": " + cublasGetStatusString(status));
}

// Device memory, or pinned host memory; moves only.
enum class Place { kDevice, kPinnedHost };

class RawBuffer {
 public:
  RawBuffer() = default;
  explicit RawBuffer(std::size_t bytes, Place place = Place::kDevice) : bytes_(bytes), place_(place) {
    if (bytes > 0) {
      cuda_check(place == Place::kDevice ? cudaMalloc(&data_, bytes) : cudaMallocHost(&data_, bytes), "allocation");
    }
  }
  RawBuffer(RawBuffer&& other) noexcept { swap(other); }
  RawBuffer& operator=(RawBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~RawBuffer() {
    if (data_ != nullptr) {
      place_ == Place::kDevice ? cudaFree(data_) : cudaFreeHost(data_);
    }
  }
  std::size_t bytes() const { return bytes_; }
  void* data() const { return data_; }

 private:
  void swap(RawBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(place_, other.place_);
  }
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Place place_ = Place::kDevice;
};

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t count, Place place = Place::kDevice) : raw_(count * sizeof(T), place), count_(count) {}
  T* data() const { return static_cast<T*>(raw_.data()); }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return raw_.bytes(); }

 private:
  RawBuffer raw_;
  std::size_t count_ = 0;
};

class Stream {
 public:
  Stream() { cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { cuda_check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace epsim::measure
