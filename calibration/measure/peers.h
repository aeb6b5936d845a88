// The processes of a measurement over several nodes, one per node. This class is a run on one node; calibration/mpi has
// the one over MPI.
#pragma once

#include <cstddef>

namespace epsim::measure {

class Peers {
 public:
  Peers() = default;
  virtual ~Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  virtual int nodes() const { return 1; }
  virtual int node() const { return 0; }  // 0 leads
  // Everyone gets the leader's bytes.
  virtual void broadcast(void*, std::size_t) {}
  // The largest of all values; also waits for everyone.
  virtual double largest(double value) { return value; }
  // Ends all processes at once with exit code 1; returns only where there is but one.
  virtual void end_all() {}
};

}  // namespace epsim::measure
