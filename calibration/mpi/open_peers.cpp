#include "calibration/mpi/open_peers.h"

#include <mpi.h>

#include <cstdlib>

#include "sim/core/error.h"

namespace epsim::measure {
namespace {

class MpiPeers : public Peers {
 public:
  MpiPeers() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &node_);
    MPI_Comm_size(MPI_COMM_WORLD, &nodes_);
  }
  ~MpiPeers() override { MPI_Finalize(); }
  int nodes() const override { return nodes_; }
  int node() const override { return node_; }
  void broadcast(void* data, std::size_t bytes) override {
    MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  double largest(double value) override {
    double out = value;
    MPI_Allreduce(&value, &out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return out;
  }
  void end_all() override { MPI_Abort(MPI_COMM_WORLD, 1); }
  int processes_here() const {
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    int count = 1;
    MPI_Comm_size(here, &count);
    MPI_Comm_free(&here);
    return count;
  }

 private:
  int node_ = 0, nodes_ = 1;
};

bool started_by_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"}) {
    if (std::getenv(name) != nullptr) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<Peers> open_mpi_peers(HostRule rule) {
  if (!started_by_mpirun()) {
    return std::make_unique<Peers>();
  }
  auto peers = std::make_unique<MpiPeers>();
  if (rule == HostRule::kOneProcessEach && peers->largest(peers->processes_here()) > 1) {
    throw RunFailed(
        "two processes run on one host; start one per node (mpirun --map-by ppr:1:node), it drives all GPUs");
  }
  return peers;
}

}  // namespace epsim::measure
