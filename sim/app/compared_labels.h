// What compare, goodput and sweep run besides the policies asked for: experts in order and placement alone, so that a
// gain can be told apart (--only-listed: not), and with --split the variants of each policy
// (sim/scenario/compared_policies.h).
#pragma once

#include <string>
#include <vector>

#include "sim/app/po.h"

namespace epsim::app {

void add_comparison_options(po::options_description& options);

struct ComparedLabels {
  std::vector<std::string> labels;  // all that is to be run, those asked for first
  std::string note;                 // one line for the user on what was added; empty: nothing
};

// Throws InputError where --split and --only-listed are both given.
void check_comparison_options(const po::variables_map& values);

// Of a comparison of `labels`; a single one is compared with nothing unless it is split. Throws InputError.
ComparedLabels compared_labels(const po::variables_map& values, const std::vector<std::string>& labels);

// The note on standard error, unless --quiet.
void print_note(const po::variables_map& values, const std::string& note);

}  // namespace epsim::app
