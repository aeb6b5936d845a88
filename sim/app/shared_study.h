// How processes share a study, and what they say when they end without its result.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "sim/app/po.h"
#include "sim/study/job_store.h"
#include "sim/study/mpi_farm.h"

namespace epsim::app {

// --shard, of the verbs whose studies may be shared.
void add_shard_option(po::options_description& options);

// What --shard and mpirun make of this process. Ranks after the first say nothing on standard output.
class SharedStudy {
 public:
  // Throws InputError, also where --output names no folder, on which processes must agree.
  explicit SharedStudy(const po::variables_map& values);

  Sharing sharing() const { return {shard_, farm_.get(), {}}; }
  bool quiet() const { return farm_ != nullptr && farm_->rank() > 0; }
  // Runs the study, and says where its finished jobs are kept when it was interrupted (exit code 130) or when this
  // process has done its part (0).
  int run(const std::filesystem::path& folder, const std::function<int()>& study) const;

 private:
  Shard shard_;
  std::unique_ptr<MpiFarm> farm_;
};

}  // namespace epsim::app
