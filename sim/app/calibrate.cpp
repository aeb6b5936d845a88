// `epsim calibrate`: public measurements in, fits out, and what they are worth.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "calibration/fit.h"
#include "calibration/import.h"
#include "calibration/link_fit.h"
#include "calibration/profile_writer.h"
#include "models/catalogue/catalogue.h"
#include "models/catalogue/data_files.h"
#include "models/catalogue/profiles.h"
#include "sim/app/trace_verbs.h"
#include "sim/core/files.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"

namespace epsim::app {

namespace {

using Json = nlohmann::ordered_json;

double quantity(const po::variables_map& values, const char* option, const char* dimension) {
  std::string problem;
  const auto parsed = parse_quantity(values[option].as<std::string>(), dimension, problem);
  refuse_if(!parsed, option, problem);
  return *parsed;
}

// Data-sheet rates: those of a catalogue GPU, or as the options state them.
MachineRates read_rates(const po::variables_map& values, const std::string& machine) {
  if (values.count("bf16") > 0 || values.count("fp8") > 0 || values.count("bandwidth") > 0) {
    refuse_if(values.count("bf16") == 0 || values.count("fp8") == 0 || values.count("bandwidth") == 0, "",
              "state --bf16, --fp8 and --bandwidth together, or none of them.");
    return {quantity(values, "bf16", "flop rate"), quantity(values, "fp8", "flop rate"),
            quantity(values, "bandwidth", "byte rate")};
  }
  const std::string own = machine.substr(0, machine.find('-'));  // of a profile that is an engine's: h200-sglang
  const std::string name = values.count("gpu") > 0 ? values["gpu"].as<std::string>() : own;
  const GpuSpec gpu = find_gpu(name == "a100" ? "A100-80" : name).spec;
  return {gpu.bf16_peak.count(), gpu.fp8_peak.count(), gpu.memory_bandwidth.count(), gpu.fp4_peak.count()};
}

LinkRates read_link_rates(const po::variables_map& values) {
  const auto rate = [&](const char* option) {
    return values.count(option) > 0 ? quantity(values, option, "byte rate") : 0.0;
  };
  return {rate("link-rate"), rate("nic-rate")};
}

std::filesystem::path required_folder(const po::variables_map& values) {
  const std::optional<std::filesystem::path> folder = named_folder(values);
  refuse_if(!folder, "output", "name the folder to write, as in -o FOLDER.");
  return *folder;
}

int import_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "the file of points to write");
  options.add_options()("machine", po::value<std::string>(), "whose measurements to read")(
      "from", po::value<std::string>(), "the collection's folder");
  const auto values = parse_words(
      words,
      "epsim calibrate import COLLECTION --machine NAME --from FOLDER -o POINTS.h5\n\n"
      "Reads public measurements: aiconfigurator (a100-sglang, a100-trtllm; h100, h200 and b200 with -sglang,\n"
      "-trtllm or -vllm behind it; h200-trtllm-1.2, b200-trtllm-1.2), infersim (h20, h800), cited (a100-vllm,\n"
      "b200-flashinfer; calibration/cited).\n"
      "Which tables and rows become which points: calibration/FORMAT.md.\n",
      options, {"collection"});
  const std::filesystem::path out = hdf5_output(values);
  const PointFile points = import_public(argument(values, "collection", "the collection to import"),
                                         argument(values, "machine", "the machine with --machine"),
                                         argument(values, "from", "the collection's folder with --from"));
  write_points(points, out);
  std::cout << points_text(points) << "points: " << out.string() << "\n";
  return 0;
}

int fit_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_output_options(options);
  options.add_options()("gpu", po::value<std::string>(),
                        "catalogue GPU whose data-sheet rates hold; default: the machine")(
      "bf16", po::value<std::string>(), "peak, for a GPU that the catalogue lacks: 148TF/s")(
      "fp8", po::value<std::string>(), "peak: 296TF/s")("bandwidth", po::value<std::string>(),
                                                        "of the memory: 4000GB/s")(
      "link-rate", po::value<std::string>(),
      "one GPU's port inside a node, each direction: 450GB/s; for NCCL's points")(
      "nic-rate", po::value<std::string>(), "one GPU's share of its node's NICs, each direction: 50GB/s");
  const auto values =
      parse_words(words,
                  "epsim calibrate fit POINTS.h5 -o FOLDER [options]\n\n"
                  "Fits every operator and writes fit.yaml, which scenarios price from, and errors.csv, "
                  "the errors on the fifth of the points that the fit has not seen. Where there are collectives,\n"
                  "links-intra.yaml and links-inter.yaml too, which a node's intra_profile and inter_profile name.\n",
                  options, {"points"});
  const PointFile points = read_points(file_argument(values, "points", "the points to fit"));
  const MachineRates rates = read_rates(values, points.provenance.machine);
  OutputFolder out(required_folder(values), values["overwrite"].as<bool>(), "fit.yaml");
  const auto note = [](const std::string& text) { std::cout << text << "\n"; };
  const FittedProfile profile = fit_profile(points, rates, note);
  std::string errors = errors_csv(profile), links;
  for (const FittedLink& link : fit_links(points, read_link_rates(values), note)) {
    write_file_atomically(out.path() / (link.inter ? "links-inter.yaml" : "links-intra.yaml"), link_yaml(link));
    errors += link_errors_csv(link);
    links += link_text(link.profile);
  }
  write_file_atomically(out.path() / "fit.yaml", profile_yaml(profile));
  write_file_atomically(out.path() / "errors.csv", errors);
  out.commit();
  std::cout << profile_text(profile) << links << "profile: " << (out.target() / "fit.yaml").string() << "\n";
  return 0;
}

bool is_points_file(const std::string& name) { return std::filesystem::path(name).extension() == ".h5"; }

// "intra" or "inter" of a file of links; nothing for any other profile.
std::optional<std::string> tier_of(const std::string& name) {
  if (!looks_like_path(name)) {
    return std::nullopt;
  }
  const Config file = Config::from_file(name);
  return file.root().maybe<std::string>("tier");
}

// A profile, the links of a file, or all profiles of a machine that has one for each engine.
std::string profile_or_links_text(const std::string& name) {
  if (tier_of(name)) {
    return link_text(link_profile(name, ""));
  }
  std::string all;
  for (const std::string& profile : fitted_profile_names()) {
    if (profile.starts_with(catalogue_key(name) + "-")) {
      all += (all.empty() ? "" : "\n") + profile_text(fitted_profile(profile));
    }
  }
  return all.empty() ? profile_text(fitted_profile(name)) : all;
}

int show_words(const std::vector<std::string>& words) {
  const auto values = parse_words(words,
                                  "epsim calibrate show PROFILE | FIT.yaml | LINKS.yaml | POINTS.h5\n\n"
                                  "A profile of the catalogue by its machine (h800; h200 shows one for each engine, "
                                  "h200-sglang one of them), a fit of\n"
                                  "your own, its links, or raw points.\n",
                                  po::options_description("options"), {"what"});
  const std::string what = file_argument(values, "what", "a profile or points to show");
  std::cout << (is_points_file(what) ? points_text(read_points(what)) : profile_or_links_text(what));
  return 0;
}

// Errors of a profile on points that need not be its own.
std::vector<ComparedErrors> compare_with_points(const FittedProfile& profile, const PointFile& points) {
  std::vector<ComparedErrors> out;
  for (const PointTable& table : points.tables) {
    const FittedOp* op = profile.find(table.op);
    if (op == nullptr) {
      out.push_back({table.op, std::nullopt});
      continue;
    }
    std::vector<double> errors;
    double outside = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
      std::vector<double> parameters;
      for (std::size_t c = 0; c < count_names(op_info(op->kind).parameters); ++c) {
        parameters.push_back(table.values_of(op_info(op->kind).parameters[c])[i]);
      }
      const Price price = op->price(parameters);
      errors.push_back(std::fabs(price.time.count() / table.time_s[i] - 1));
      outside += price.origin == Origin::kExtrapolated ? 1 : 0;
    }
    out.push_back({table.op, summarise_errors(errors), outside / static_cast<double>(table.size())});
  }
  return out;
}

std::string errors_text(const std::vector<ComparedErrors>& rows) {
  std::string out = fmt::format("{:<32} {:>7} {:>8} {:>8} {:>8} {:>9}\n", "operator or collective", "points",
                                "median %", "p95 %", "worst %", "outside %");
  for (const ComparedErrors& row : rows) {
    out += !row.errors ? fmt::format("{:<32} not in the profile\n", row.what)
                       : fmt::format("{:<32} {:>7} {:>8.1f} {:>8.1f} {:>8.1f} {:>9.1f}\n", row.what, row.errors->points,
                                     row.errors->median * 100, row.errors->p95 * 100, row.errors->worst * 100,
                                     row.outside * 100);
  }
  return out;
}

std::string errors_json(const std::vector<ComparedErrors>& rows) {
  Json out{{"format", 1}, {"errors", Json::array()}};
  for (const ComparedErrors& row : rows) {
    Json& json = out["errors"].emplace_back(Json{{"what", row.what}, {"in_profile", row.errors.has_value()}});
    if (row.errors) {
      json["points"] = row.errors->points;
      json["median_share"] = row.errors->median;
      json["p95_share"] = row.errors->p95;
      json["worst_share"] = row.errors->worst;
      json["outside_share"] = row.outside;
    }
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int compare_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_json_option(options, "points and errors of each operator or collective");
  const auto values = parse_words(
      words,
      "epsim calibrate compare PROFILE POINTS.h5\n\n"
      "How far a profile (by machine, a fit.yaml, or a file of links) is from points, operator by operator.\n",
      options, {"profile", "points"});
  const std::string name = file_argument(values, "profile", "the profile");
  const PointFile points = read_points(file_argument(values, "points", "the points to compare with"));
  const std::optional<std::string> tier = tier_of(name);
  const std::vector<ComparedErrors> rows = tier ? compare_link(link_profile(name, ""), *tier == "inter", points)
                                                : compare_with_points(fitted_profile(name), points);
  const JsonOutput json(values);
  std::cout << errors_text(rows);
  json.print(errors_json(rows));
  return 0;
}

int export_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_output_options(options);
  const auto values = parse_words(words,
                                  "epsim calibrate export POINTS.h5 -o FOLDER\n\n"
                                  "One CSV file per operator.\n",
                                  options, {"points"});
  const PointFile points = read_points(file_argument(values, "points", "the points to export"));
  OutputFolder out(required_folder(values), values["overwrite"].as<bool>(), "points.txt");
  write_file_atomically(out.path() / "points.txt", points_text(points));
  for (const PointTable& table : points.tables) {
    write_file_atomically(out.path() / (table.op + ".csv"), points_csv(table));
  }
  out.commit();
  std::cout << "written: " << out.target().string() << "\n";
  return 0;
}

constexpr Verb kCalibrateVerbs[] = {
    {"import", "public measurements as raw points", import_words},
    {"fit", "a profile for runs from raw points, with its errors", fit_words},
    {"show", "contents and errors of a profile, or contents of raw points", show_words},
    {"compare", "a profile with points that its fit did not use", compare_words},
    {"export", "raw points as CSV", export_words},
};

}  // namespace

int calibrate_verb(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::cout << "epsim calibrate <verb> [arguments]\n\n";
    for (const Verb& verb : kCalibrateVerbs) {
      std::cout << fmt::format("  {:<8} {}\n", verb.name, verb.summary);
    }
    std::cout << "\nTo measure a machine of your own: calibration/run.sh.\n";
    return words.empty() ? 2 : 0;
  }
  return call_verb(kCalibrateVerbs, "calibrate verb", words);
}

}  // namespace epsim::app
