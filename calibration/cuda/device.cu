#include "calibration/device.h"

#include <cuda_runtime.h>

namespace epsim {

DeviceReport query_devices() {
  DeviceReport report;
  cudaDriverGetVersion(&report.driver_version);
  cudaRuntimeGetVersion(&report.runtime_version);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    report.waived = status != cudaSuccess ? cudaGetErrorString(status) : "the machine has no CUDA device";
    return report;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) {
      continue;
    }
    report.devices.push_back({properties.name, properties.major, properties.minor, properties.multiProcessorCount,
                              Bytes(static_cast<double>(properties.totalGlobalMem)), properties.ECCEnabled != 0});
  }
  return report;
}

}  // namespace epsim
