// A library with the functions of NVML that the program loads, for one GPU at a made-up place.
#include <string.h>

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** device) {
  static int gpu;
  *device = &gpu;
  return strcmp(place, "00000000:01:00.0") == 0 ? 0 : 6;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  strncpy(text, "580.0", length);
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* mhz) {
  (void)device;
  *mhz = kind == 1 ? 1410 : 1593;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  (void)device;
  *reasons = 0x27;
  return 0;
}
int nvmlDeviceGetEccMode(void* device, int* current, int* pending) {
  (void)device;
  *current = *pending = 1;
  return 0;
}
