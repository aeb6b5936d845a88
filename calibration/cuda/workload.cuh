// What every benchmark of this folder shares: the stream, timing by events, buffer sets that rotate beyond the L2.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <memory>
#include <string>
#include <vector>

#include "calibration/cuda/cuda_check.cuh"
#include "calibration/cuda/kernels.cuh"
#include "calibration/measure/reference.h"

namespace epsim::measure {

// One GPU of the machine. Lives as long as its workloads.
struct CudaContext {
  GpuFacts facts;
  int gpu = 0;
  Stream stream;
  Event start, stop;
  cublasHandle_t cublas = nullptr;
  cublasLtHandle_t cublas_lt = nullptr;
  RawBuffer workspace;  // of cuBLAS, so that it allocates nothing while it is timed

  explicit CudaContext(int device);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  Bytes free_memory() const;
};

// Executions are queued behind a kernel that spins for as long as the host needs to queue them, so that launches are
// not waited for; a launch costs what it costs on a busy stream, as inside an engine's step.
class CudaWorkload : public Workload {
 public:
  explicit CudaWorkload(CudaContext& context) : context_(context) {}
  std::vector<std::string> kernels() const override { return {"epsim"}; }
  Seconds time(std::size_t kernel, int launches) override;
  CheckReport check(std::size_t kernel) override;

 protected:
  // Puts one execution over buffer set `set` on the stream.
  virtual void enqueue(std::size_t kernel, int set) = 0;
  // Fills the outputs of set 0 with what no result is.
  virtual void poison() = 0;
  // After one execution over set 0.
  virtual CheckReport compare(std::size_t kernel) = 0;
  // Host calls that one execution takes, for the time to spin.
  virtual int calls() const { return 1; }

  void synchronize();
  template <class T>
  T read(const T* device, std::size_t index) const {
    T out{};
    cuda_check(cudaMemcpy(&out, device + index, sizeof(T), cudaMemcpyDeviceToHost), "reading an output");
    return out;
  }
  template <class T>
  std::vector<T> read(const T* device, std::size_t first, std::size_t count) const {
    std::vector<T> out(count);
    cuda_check(cudaMemcpy(out.data(), device + first, count * sizeof(T), cudaMemcpyDeviceToHost), "reading outputs");
    return out;
  }
  // Number of sets of `one_set` bytes; call before allocating them.
  int choose_sets(double one_set);

  CudaContext& context_;
  int sets_ = 1;

 private:
  int next_set_ = 0;
};

// One function per group of operators; each throws MeasureFailed(kUnsupported) for shapes it has no kernel for.
std::unique_ptr<Workload> make_memory_workload(CudaContext& context, const PlannedPoint& point);
std::unique_ptr<Workload> make_transfer_workload(CudaContext& context, const PlannedPoint& point);
std::unique_ptr<Workload> make_gemm_workload(CudaContext& context, const PlannedPoint& point);
std::unique_ptr<Workload> make_token_workload(CudaContext& context, const PlannedPoint& point);

}  // namespace epsim::measure
