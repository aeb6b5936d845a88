// What a report is made from: the files of an output folder, as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace epsim {

struct ReportFile {
  std::string path;  // from the folder, with slashes
  std::string content;
};

// Quantiles of a run's latencies at even steps from 0 to 1: at most kQuantiles of them, in ms, under the names of their
// columns in requests.csv.
struct RunQuantiles {
  std::string folder;
  std::vector<std::pair<std::string, std::vector<double>>> latencies;
};
inline constexpr std::size_t kQuantiles = 200;

// What a kind of node has, for the first screen.
struct ReportNode {
  std::string name, gpu;
  int gpus = 0;
};

struct ReportInput {
  std::string title;                    // name of the folder, or of the plan's file
  std::vector<ReportFile> files;        // by path
  std::vector<std::string> plans;       // those of `files` that are plans
  std::vector<RunQuantiles> quantiles;  // by folder
  std::vector<ReportNode> nodes;        // that scenarios name; whoever knows the hardware fills them in
  std::vector<std::string> left_out;    // sentences: files that are too large to go into a report
};

// A report stays small enough to be sent by mail: larger files are left out, and the report says so.
inline constexpr std::uintmax_t kMostReportFileBytes = 8u << 20, kMostReportBytes = 24u << 20;

// Reads what `place` holds: the output of run, compare, goodput, sweep or reproduce, several of them in subfolders
// (three levels at most), or the file of a plan. Of requests.csv only the quantiles are taken; files
// that a report does not show (results.h5, steps.csv) are not read. Throws InputError when there is nothing to report
// on, when a file is damaged or of a format that is not known.
ReportInput read_report_input(const std::filesystem::path& place);

}  // namespace epsim
