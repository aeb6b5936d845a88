#include "calibration/cuda/workload.cuh"

#include <algorithm>

namespace epsim::measure {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;  // cuBLAS asks for 32 MiB on Hopper

double attribute(cudaDeviceAttr which, int gpu) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, gpu) == cudaSuccess ? value : 0;
}

GpuFacts facts_of(int gpu) {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  GpuFacts out;
  out.name = properties.name;
  out.compute_major = properties.major;
  out.compute_minor = properties.minor;
  out.multiprocessors = properties.multiProcessorCount;
  out.memory = Bytes(static_cast<double>(properties.totalGlobalMem));
  out.l2 = Bytes(properties.l2CacheSize);
  out.clock_mhz = attribute(cudaDevAttrClockRate, gpu) / 1e3;
  out.memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, gpu) / 1e3;
  out.memory_bus_bits = properties.memoryBusWidth;
  return out;
}

}  // namespace

CudaContext::CudaContext(int device) : facts(facts_of(device)), gpu(device), workspace(kWorkspaceBytes) {
  cublas_check(cublasCreate(&cublas), "cublasCreate");
  cublas_check(cublasSetStream(cublas, stream), "cublasSetStream");
  cublas_check(cublasSetWorkspace(cublas, workspace.data(), workspace.bytes()), "cublasSetWorkspace");
  cublas_check(cublasLtCreate(&cublas_lt), "cublasLtCreate");
}

CudaContext::~CudaContext() {
  if (cublas_lt != nullptr) {
    cublasLtDestroy(cublas_lt);
  }
  if (cublas != nullptr) {
    cublasDestroy(cublas);
  }
}

Bytes CudaContext::free_memory() const {
  std::size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return Bytes(static_cast<double>(free));
}

int CudaWorkload::choose_sets(double one_set) {
  sets_ = rotating_sets(Bytes(one_set), context_.facts.l2, context_.free_memory());
  return sets_;
}

// The whole device, because copies from pageable memory may still be under way on the default stream.
void CudaWorkload::synchronize() { cuda_check(cudaDeviceSynchronize(), "execution"); }

Seconds CudaWorkload::time(std::size_t kernel, int launches) {
  // Queueing one call takes the host a few microseconds; cuBLAS's take longer.
  spin_kernel(20'000 + std::int64_t{10'000} * launches * calls(), context_.stream);
  cuda_check(cudaEventRecord(context_.start, context_.stream), "cudaEventRecord");
  for (int i = 0; i < launches; ++i) {
    enqueue(kernel, next_set_);
    next_set_ = (next_set_ + 1) % sets_;
  }
  cuda_check(cudaEventRecord(context_.stop, context_.stream), "cudaEventRecord");
  cuda_check(cudaEventSynchronize(context_.stop), "execution");
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, context_.start, context_.stop), "cudaEventElapsedTime");
  return Seconds(milliseconds * 1e-3);
}

CheckReport CudaWorkload::check(std::size_t kernel) {
  poison();
  enqueue(kernel, 0);
  synchronize();
  return compare(kernel);
}

}  // namespace epsim::measure
