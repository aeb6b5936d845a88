#include "calibration/cuda/open_device.h"

#include <functional>

#include "calibration/cuda/expert_ffn.cuh"
#include "calibration/cuda/workload.cuh"
#include "calibration/measure/nvml.h"
#include "calibration/measure/provenance.h"
#include "sim/core/check.h"
#include "sim/core/error.h"
#ifdef EPSIM_NCCL
#include "calibration/cuda/nccl_team.cuh"
#endif

namespace epsim::measure {
namespace {

using Maker = std::unique_ptr<Workload> (*)(CudaContext&, const PlannedPoint&);
struct OpMaker {
  std::string_view op;
  Maker make;
};
constexpr OpMaker kMakers[] = {
    {"grouped_gemm", make_ffn_workload},
    {"grouped_gemm_fp8", make_ffn_workload},
    {"dense_gemm", make_gemm_workload},
    {"dense_gemm_fp8", make_gemm_workload},
    {"gate", make_token_workload},
    {"permute", make_token_workload},
    {"unpermute", make_token_workload},
    {"activation", make_token_workload},
    {"norm", make_token_workload},
    {"device_copy", make_memory_workload},
    {"host_to_device", make_transfer_workload},
    {"device_to_host", make_transfer_workload},
    {"peer_copy", make_transfer_workload},
};

std::string pci_bus_id(int gpu) {
  char text[32] = "";
  return cudaDeviceGetPCIBusId(text, sizeof text, gpu) == cudaSuccess ? text : "";
}

class CudaDevice : public Device {
 public:
  CudaDevice(int gpus, TeamLeader& leader)
      : context_(0),
        nvml_(pci_bus_id(0)),
        leader_(leader)
#ifdef EPSIM_NCCL
        ,
        team_(0, gpus)
#endif
  {
    context_.facts.gpus = gpus;
    context_.facts.nodes = leader.peers().nodes();
  }

  // The other nodes take their communicators down while this one does.
  ~CudaDevice() override { leader_.dismiss(); }

  const GpuFacts& facts() const override { return context_.facts; }
  const Nvml& nvml() const { return nvml_; }

  std::optional<std::string> waived(const OpSpec& op) const override {
    const int gpus = context_.facts.gpus;
    if (op.dtype == "fp8" && !context_.facts.has_fp8()) {
      return "the GPU has no fp8 matrix units (compute capability below 8.9)";
    }
    if (op.kind == OpKind::kCollective) {
      return waived_collective();
    }
    if (op.name == "peer_copy" && gpus < 2) {
      return "needs two GPUs, there is one";
    }
    return maker_of(op) == nullptr ? std::optional<std::string>("not built into this program") : std::nullopt;
  }

  std::unique_ptr<Workload> prepare(const PlannedPoint& point) override {
#ifdef EPSIM_NCCL
    if (point.op->kind == OpKind::kCollective) {
      return make_collective_workload(leader_, team_, point);
    }
#endif
    const Maker make = maker_of(*point.op);
    EPSIM_CHECK(make != nullptr, "only operators that are not waived are prepared");
    return make(context_, point);
  }

  bool usable() override { return cudaDeviceSynchronize() == cudaSuccess; }

  ClockState clocks() override {
    const NvmlState state = nvml_.state();
    return {state.sm_mhz, state.throttle};
  }

 private:
  std::optional<std::string> waived_collective() const {
#ifdef EPSIM_NCCL
    return context_.facts.gpus * context_.facts.nodes < 2 ? std::optional<std::string>("needs two GPUs, there is one")
                                                          : std::nullopt;
#else
    return "built without NCCL";
#endif
  }
  static Maker maker_of(const OpSpec& op) {
    for (const OpMaker& m : kMakers) {
      if (m.op == op.name) {
        return m.make;
      }
    }
    return nullptr;
  }

  CudaContext context_;
  Nvml nvml_;
  TeamLeader& leader_;
#ifdef EPSIM_NCCL
  NcclTeam team_;
#endif
};

Provenance provenance_of(const CudaDevice& device) {
  int runtime = 0, cublas_version = 0;
  cudaRuntimeGetVersion(&runtime);
  cublasHandle_t handle = nullptr;
  cublas_check(cublasCreate(&handle), "cublasCreate");
  cublasGetVersion(handle, &cublas_version);
  cublasDestroy(handle);
  Provenance out;
#ifdef EPSIM_NCCL
  int nccl_version = 0;
  nccl_check(ncclGetVersion(&nccl_version), "ncclGetVersion");
  out.nccl = library_version_text(nccl_version);
#endif
  out.gpu = device.facts().name;
  out.driver = device.nvml().driver_version();
  out.cuda = cuda_version_text(runtime);
  out.cublas = library_version_text(cublas_version);
  out.ecc = device.nvml().ecc();
  out.notes = device.nvml().problem();
  return out;
}

}  // namespace

std::optional<std::string> no_cuda_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return std::string("no CUDA device: ") + cudaGetErrorString(status);
  }
  return count == 0 ? std::optional<std::string>("the machine has no CUDA device") : std::nullopt;
}

namespace {

int count_gpus() {
  if (const auto reason = no_cuda_device()) {
    throw RunFailed(*reason);
  }
  int gpus = 0;
  cudaGetDeviceCount(&gpus);
  return gpus;
}

}  // namespace

OpenedDevice open_cuda_device(TeamLeader& leader) {
  const int gpus = count_gpus();
  leader.join(gpus);
  try {
    auto device = std::make_unique<CudaDevice>(gpus, leader);
    Provenance provenance = provenance_of(*device);
    return {std::move(device), std::move(provenance)};
  } catch (const MeasureFailed& failure) {
    throw RunFailed(std::string("the GPU cannot be used: ") + failure.what());
  }
}

std::unique_ptr<TeamMember> open_cuda_member(int node, int leader_gpus) {
  const int gpus = count_gpus();
  check_same_gpus(gpus, leader_gpus);
#ifdef EPSIM_NCCL
  return std::make_unique<NcclTeam>(node, gpus);
#else
  static_cast<void>(node);
  throw RunFailed("several nodes need NCCL, which this program was built without");
#endif
}

}  // namespace epsim::measure
