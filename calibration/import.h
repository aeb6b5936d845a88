// Public measurements as raw points.
//
//   aiconfigurator  github.com/ai-dynamo/aiconfigurator, systems/data, Apache-2.0: one table of many per operator and
//                   machine (sources() says which and why). Times are milliseconds. Grouped GEMM: the rows per expert
//                   follow from the collectors' routing (row_counts.h), the tensor-parallel share of the FFN is the
//                   intermediate size; models without a gate projection are left out.
//   infersim        github.com/alibaba/InferSim, bench_data, Apache-2.0: fp8 grouped and dense GEMM, MLA and GQA on H20
//                   and H800. Times are microseconds; up and down projection of a grouped GEMM are added.
//
//   cited           calibration/cited of this project: rows that public issues, pull requests and tables state, each with its
//                   source. Times are milliseconds.
//
// What each column becomes is described in calibration/FORMAT.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "calibration/points.h"

namespace epsim {

std::vector<std::string> public_collections();
std::vector<std::string> public_machines(const std::string& collection);

// All operators of `machine` from the folder of a collection. InputError for an unknown collection or machine (listing
// those there are), a missing file or column, a row that is no number. With `only`, that operator alone.
PointFile import_public(const std::string& collection, const std::string& machine, const std::filesystem::path& folder,
                        const std::string& only = "");

}  // namespace epsim
