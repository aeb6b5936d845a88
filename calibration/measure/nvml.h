// Clocks, throttling and ECC as NVIDIA's management library tells them. The library comes with the driver, so it is
// loaded when the program runs: the program links and starts without one.
//   Source : NVML API reference, nvmlDeviceGetClockInfo, nvmlDeviceGetCurrentClocksThrottleReasons,
//   nvmlDeviceGetEccMode.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace epsim::measure {

// Bits of nvmlClocksThrottleReasons that say that a clock is lower than the chip allows: all but "GPU idle" (1) and
// "applications clocks setting" (2), which are no trouble.
inline constexpr std::uint64_t kThrottleBits = ~std::uint64_t{3};

struct NvmlState {
  double sm_mhz = 0;           // 0: not known
  std::uint64_t throttle = 0;  // kThrottleBits only
};

class Nvml {
 public:
  // Loads `library`. Where that fails, or the GPU is not found, problem() says why and every answer is "not known".
  // `pci_bus_id` as cudaDeviceGetPCIBusId gives it.
  explicit Nvml(const std::string& pci_bus_id, const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const std::string& problem() const { return problem_; }  // empty: all is well
  std::string driver_version() const;                      // "" = not known
  std::string ecc() const;                                 // "on", "off" or "not known"
  NvmlState state() const;

 private:
  struct Calls;
  std::unique_ptr<Calls> calls_;
  std::string problem_;
};

}  // namespace epsim::measure
