// Processes of one mpirun that share a study: rank 0 deals units of jobs to all ranks by send and receive. Claims in
// the folder stay what decides (job_store.h): a dealt unit whose rank dies is free for the next that asks, and a rank
// that gets no answer takes from the folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace epsim {

class MpiFarm {
 public:
  // Null where mpirun did not start this process, or started it alone, or this program was built without MPI: processes
  // then take from the folder.
  static std::unique_ptr<MpiFarm> join();
  ~MpiFarm();  // collective, as far as ranks live
  MpiFarm(const MpiFarm&) = delete;
  MpiFarm& operator=(const MpiFarm&) = delete;

  int rank() const;
  // Ranks after the first wait here until the first has come, at most two minutes.
  void begin();
  // The next of `count` units of a list that all ranks name alike, each once; `count` when none is left. Safe to call
  // from several threads.
  std::size_t deal(std::uint64_t list, std::size_t count);

 private:
  MpiFarm();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace epsim
