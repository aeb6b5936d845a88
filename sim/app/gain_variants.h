// --split of compare and goodput: the variants of each policy that tell whose its gain is (sim/report/gain_split.h).
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

namespace epsim::app {

void add_split_option(boost::program_options::options_description& options);

struct GainVariants {
  std::vector<std::string> labels;       // all that is to be run, those asked for first
  std::vector<std::string> assignments;  // entries of the section `policies` for the variants
};

// With --split: experts in order, placement alone and the variants of each of `labels` beside them. Else `labels`. Throws
// InputError.
GainVariants gain_variants(const boost::program_options::variables_map& values, const std::vector<std::string>& labels);

}  // namespace epsim::app
