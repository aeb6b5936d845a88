// The studies that the package runs, of the library's parts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/python/bindings.h"
#include "sim/report/goodput_writer.h"

namespace epsim::python {

struct Compared {
  std::shared_ptr<const std::vector<RunResult>> first_seed;  // [policy]
  Comparison comparison;
  RunInfo info;

  Run run(std::size_t policy) const;
  std::vector<std::string> labels() const;
};

struct SearchedGoodput {
  GoodputStudy study;
  RunInfo info;
};

}  // namespace epsim::python
