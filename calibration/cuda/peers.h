// The processes of a run over several nodes, one per node. Without MPI there is one.
#pragma once

#include <cstddef>
#include <memory>

namespace epsim::measure {

class Peers {
 public:
  virtual ~Peers() = default;
  virtual int nodes() const { return 1; }
  virtual int node() const { return 0; }  // 0 leads
  // Everyone gets the leader's bytes.
  virtual void broadcast(void*, std::size_t) {}
  // The largest of all values; also waits for everyone.
  virtual double largest(double value) { return value; }
};

// With EPSIM_MPI, and started by mpirun, the processes of MPI_COMM_WORLD; else this process alone. Throws RunFailed
// when two processes share a host: one process drives all GPUs of its node.
std::unique_ptr<Peers> open_peers();

}  // namespace epsim::measure
