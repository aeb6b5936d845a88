#include "sim/app/shared_study.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <iostream>

#include "sim/app/command_line.h"
#include "sim/core/refuse.h"
#include "sim/study/job_runner.h"

namespace epsim::app {

void add_shard_option(po::options_description& options) {
  options.add_options()(
      "shard", po::value<std::string>(),
      "i/n: run the i-th of n parts alone, from 1 on; the same command without it, when all parts are "
      "finished, gathers the results. Needs -o");
}

namespace {

// Of "i/n".
Shard shard_of(const po::variables_map& values) {
  if (values.count("shard") == 0) {
    return {};
  }
  const auto& text = values["shard"].as<std::string>();
  const InputPlace place{"", 0, "shard"};
  std::size_t index = 0, count = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, index);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = slash ? std::from_chars(first.ptr + 1, end, count) : first;
  refuse_if(!slash || second.ec != std::errc() || second.ptr != end, place,
            fmt::format("'{}' is not a part; write i/n, as in 3/8.", text));
  constexpr std::size_t kMost = 100000;
  refuse_if(count < 1 || count > kMost || index < 1 || index > count, place,
            fmt::format("there is no part {} of {}; 1/n to n/n are allowed, n at most {}.", index, count, kMost));
  refuse_if(values.count("output") == 0, place, "name the folder that all parts share, as in -o out/study.");
  return {index - 1, count};
}

}  // namespace

SharedStudy::SharedStudy(const po::variables_map& values) : shard_(shard_of(values)), farm_(MpiFarm::join()) {
  if (farm_ == nullptr) {
    return;
  }
  refuse_if(values.count("output") == 0 || !shard_.whole(), shard_.whole() ? "output" : "shard",
            shard_.whole() ? "name the folder that all ranks share, as in -o out/study."
                           : "the ranks of mpirun share the whole study; leave --shard out.");
  if (quiet() && std::freopen("/dev/null", "w", stdout) == nullptr) {
    throw RunFailed("/dev/null cannot be written.");
  }
}

int SharedStudy::run(const std::filesystem::path& folder, const std::function<int()>& study) const {
  try {
    return study();
  } catch (const StudyInterrupted&) {
    std::cout << fmt::format("interrupted: finished work is kept in {}; rerun the same command to continue\n",
                             folder.string());
    return kInterrupted;
  } catch (const ShardFinished&) {
    std::cout << fmt::format(
        "part {} of {} is finished: {} has its results; when all parts are, the same command without "
        "--shard gathers them\n",
        shard_.index + 1, shard_.count, folder.string());
    return 0;
  }
}

}  // namespace epsim::app
