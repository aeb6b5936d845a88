#include "calibration/measure/nvml.h"

#include <dlfcn.h>

namespace epsim::measure {

// Types and numbers as in nvml.h, whose functions have had these signatures since version 5.
struct Nvml::Calls {
  using Handle = struct NvmlDevice*;
  void* library = nullptr;
  Handle device = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_bus_id)(const char*, Handle*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*throttle)(Handle, unsigned long long*) = nullptr;
  int (*ecc)(Handle, int*, int*) = nullptr;
  bool started = false;

  ~Calls() {
    if (started) {
      shutdown();
    }
    if (library != nullptr) {
      dlclose(library);
    }
  }
  template <class F>
  bool find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
  }
  bool find_all() {
    return find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
           find(by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2") && find(driver, "nvmlSystemGetDriverVersion") &&
           find(clock, "nvmlDeviceGetClockInfo") && find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons") &&
           find(ecc, "nvmlDeviceGetEccMode");
  }
};

namespace {
constexpr int kSmClock = 1;
}

Nvml::Nvml(const std::string& pci_bus_id, const std::string& library) : calls_(std::make_unique<Calls>()) {
  calls_->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (calls_->library == nullptr) {
    problem_ = "no " + library;
  } else if (!calls_->find_all()) {
    problem_ = library + " lacks a function";
  } else if (const int status = calls_->init(); status != 0) {
    problem_ = "nvmlInit failed with " + std::to_string(status);
  } else {
    calls_->started = true;
    if (calls_->by_bus_id(pci_bus_id.c_str(), &calls_->device) != 0) {
      problem_ = "NVML does not know the GPU " + pci_bus_id;
    }
  }
}

Nvml::~Nvml() = default;

std::string Nvml::driver_version() const {
  char text[96] = "";
  return calls_->started && calls_->driver(text, sizeof text) == 0 ? text : "";
}

std::string Nvml::ecc() const {
  int current = 0, pending = 0;
  if (!problem_.empty() || calls_->ecc(calls_->device, &current, &pending) != 0) {
    return "not known";
  }
  return current != 0 ? "on" : "off";
}

NvmlState Nvml::state() const {
  NvmlState out;
  if (!problem_.empty()) {
    return out;
  }
  unsigned mhz = 0;
  unsigned long long reasons = 0;
  out.sm_mhz = calls_->clock(calls_->device, kSmClock, &mhz) == 0 ? mhz : 0;
  out.throttle = calls_->throttle(calls_->device, &reasons) == 0 ? reasons & kThrottleBits : 0;
  return out;
}

}  // namespace epsim::measure
