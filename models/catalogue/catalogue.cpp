#include "models/catalogue/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/catalogue/data_files.h"
#include "sim/core/last_made.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

constexpr char kGpuFile[] = "models/hardware/gpus.yaml";
constexpr char kNodeFile[] = "models/hardware/nodes.yaml";

std::vector<CatalogueItem> list_entries(const char* file) {
  ConfigReader root = data_file(file).value().root();
  return mapped(root.keys(), [&](const std::string& name) {
    return CatalogueItem{name, root.section(name).required<std::string>("summary")};
  });
}

// The entry's name as the file spells it.
std::string entry_name(const ConfigReader& root, const std::string& kind, const std::string& asked) {
  const std::vector<std::string> names = root.keys();
  for (const std::string& name : names) {
    if (catalogue_key(name) == catalogue_key(asked)) {
      return name;
    }
  }
  throw InputError({}, unknown_name(kind, asked, names));
}

// Adds the entry's sources to `sources`. In the catalogue every one of `figures` that the entry gives must have its
// own; users may leave them out.
void read_sources(ConfigReader& in, const std::vector<std::string>& figures, bool catalogue, Sources& sources) {
  ConfigReader texts = in.section("sources");
  for (const std::string& key : texts.keys()) {
    sources[key] = texts.required<std::string>(key);
  }
  if (!catalogue) {
    return;
  }
  for (const std::string& key : figures) {
    in.check(!in.has(key) || texts.has(key), key,
             fmt::format("has no source: say under sources.{} where it is from.", key));
  }
}

// A profile's name, or the path of a file beside the document.
std::optional<std::string> profile_name(ConfigReader& in, const std::string& key) {
  std::optional<std::string> name = in.maybe<std::string>(key);
  if (name && looks_like_path(*name)) {
    name = in.maybe_path(key)->string();
  }
  return name;
}

GpuEntry read_gpu(ConfigReader in, const std::string& name, bool catalogue) {
  GpuEntry out;
  out.summary = in.required<std::string>("summary");
  out.spec.name = name;
  out.spec.bf16_peak = in.required<FlopsPerSecond>("bf16", Bound::kPositive);
  out.spec.fp8_peak = in.maybe<FlopsPerSecond>("fp8", Bound::kPositive).value_or(FlopsPerSecond(0));
  out.spec.fp4_peak = in.maybe<FlopsPerSecond>("fp4", Bound::kPositive).value_or(FlopsPerSecond(0));
  out.spec.memory = in.required<Bytes>("memory", Bound::kPositive);
  out.spec.memory_bandwidth = in.required<BytesPerSecond>("memory_bandwidth", Bound::kPositive);
  out.spec.host_rate = in.maybe<BytesPerSecond>("host_rate", Bound::kPositive).value_or(BytesPerSecond(0));
  const std::optional<std::string> profile = profile_name(in, "compute_profile");
  in.check(profile.has_value(), "compute_profile", "this key is required and missing.");
  const auto carried_over = in.maybe<std::string>("compute_carried_over").value_or("");
  read_sources(in, {"bf16", "fp8", "fp4", "memory", "memory_bandwidth", "host_rate"}, catalogue, out.sources);
  out.spec.source = in.place("").file;
  in.finish();
  out.compute = compute_profile(*profile, carried_over);
  if (carried_over.empty() && out.compute.peak != out.spec.bf16_peak) {
    out.compute =
        compute_profile(*profile, fmt::format("measured on a GPU of {:.0f} TF/s, used for one of {:.0f}",
                                              out.compute.peak.count() / 1e12, out.spec.bf16_peak.count() / 1e12));
  }
  return out;
}

// A node as its entry and the entries it is based on state it: the outer values win.
struct NodeText {
  std::optional<std::string> summary, intra, nic_kind, intra_profile, inter_profile;
  std::string intra_carried_over, inter_carried_over;  // go with their profile
  std::optional<GpuEntry> gpu;
  std::optional<int> gpus, gpus_per_host, nics;
  std::optional<BytesPerSecond> intra_rate, nic_rate;
  Sources sources;
};

template <class T>
void overlay(std::optional<T>& value, std::optional<T> stated) {
  if (stated) {
    value = std::move(stated);
  }
}

void read_profile(ConfigReader& in, const std::string& tier, std::optional<std::string>& profile,
                  std::string& carried_over) {
  const std::string key = tier + "_carried_over";
  if (std::optional<std::string> stated = profile_name(in, tier + "_profile")) {
    profile = std::move(stated);
    carried_over = in.maybe<std::string>(key).value_or("");
  } else {
    in.check(!in.has(key), key, fmt::format("belongs to a {}_profile, which is missing here.", tier));
  }
}

NodeText read_node_text(ConfigReader in, bool catalogue) {
  NodeText out;
  if (const auto base = in.maybe<std::string>("base")) {
    // Entries of the catalogue are based on none or on a plain one, so this ends.
    in.check(!looks_like_path(*base), "base", "must be a node of the catalogue.");
    ConfigReader nodes = data_file(kNodeFile).value().root();
    out = read_node_text(nodes.section(entry_name(nodes, "node", *base)), true);
  }
  overlay(out.summary, in.maybe<std::string>("summary"));
  if (const auto gpu = in.maybe<std::string>("gpu")) {
    in.check(!in.has("gpu_spec"), "gpu_spec", "a node has either gpu or gpu_spec.");
    out.gpu = find_gpu(*gpu);
  } else if (in.has("gpu_spec")) {
    ConfigReader gpu_spec = in.section("gpu_spec");
    const auto gpu_name = gpu_spec.required<std::string>("name");
    out.gpu = read_gpu(gpu_spec, gpu_name, false);
  }
  overlay(out.gpus, in.maybe<int>("gpus", Bound::kPositive));
  overlay(out.gpus_per_host, in.maybe<int>("gpus_per_host", Bound::kPositive));
  if (in.has("intra")) {
    out.intra = in.choice("intra", {"nvswitch", "pcie"});
  }
  overlay(out.intra_rate, in.maybe<BytesPerSecond>("intra_rate", Bound::kPositive));
  overlay(out.nics, in.maybe<int>("nics"));
  overlay(out.nic_rate, in.maybe<BytesPerSecond>("nic_rate", Bound::kPositive));
  overlay(out.nic_kind, in.maybe<std::string>("nic_kind"));
  read_profile(in, "intra", out.intra_profile, out.intra_carried_over);
  read_profile(in, "inter", out.inter_profile, out.inter_carried_over);
  read_sources(in, {"gpus", "intra_rate", "nics", "nic_rate"}, catalogue, out.sources);
  in.finish();
  return out;
}

template <class T>
T given(const ConfigReader& in, const std::string& key, const std::optional<T>& value) {
  in.check(value.has_value(), key, "this key is required and missing.");
  return *value;
}

// A profile that was measured at another rate than the link has is carried over, whatever the entry says.
LinkProfile profile_for(const std::string& name, const std::string& carried_over, BytesPerSecond rate) {
  LinkProfile out = link_profile(name, carried_over);
  const double measured = out.curves.front().link_rate.count();
  if (carried_over.empty() && std::fabs(measured - rate.count()) > 1e-6 * measured) {
    out = link_profile(
        name, fmt::format("measured at {:.2f} GB/s per GPU, used for {:.2f}", measured / 1e9, rate.count() / 1e9));
  }
  return out;
}

NodeEntry read_node(const ConfigReader& in, const std::string& name, bool catalogue) {
  const NodeText text = read_node_text(in, catalogue);
  in.check(text.gpu.has_value(), "gpu", "this key is required and missing: a GPU of the catalogue, or gpu_spec.");
  NodeEntry out;
  out.summary = given(in, "summary", text.summary);
  out.spec.name = name;
  out.spec.gpu = text.gpu->spec;
  out.spec.gpus = given(in, "gpus", text.gpus);
  out.spec.gpus_per_host = std::min(out.spec.gpus, text.gpus_per_host.value_or(out.spec.gpus));
  out.spec.intra = given(in, "intra", text.intra) == "pcie" ? IntraLink::kPcie : IntraLink::kNvSwitch;
  out.spec.intra_rate = given(in, "intra_rate", text.intra_rate);
  out.spec.nics = given(in, "nics", text.nics);
  out.spec.source = in.place("").file;
  out.sources = text.sources;
  out.compute = text.gpu->compute;
  out.network.intra =
      profile_for(given(in, "intra_profile", text.intra_profile), text.intra_carried_over, out.spec.intra_rate);
  if (out.spec.nics > 0) {
    out.spec.nic_rate = given(in, "nic_rate", text.nic_rate);
    out.spec.nic_kind = given(in, "nic_kind", text.nic_kind);
    out.network.inter = profile_for(given(in, "inter_profile", text.inter_profile), text.inter_carried_over,
                                    out.spec.node_rate() / out.spec.gpus);
  }
  return out;
}

// Says which nodes have a GPU whose name stands in place of a node's.
void refuse_gpu(ConfigReader& nodes, const std::string& asked) {
  const std::vector<std::string> names = nodes.keys();
  if (std::ranges::find(names, catalogue_key(asked), catalogue_key) != names.end()) {
    return;
  }
  const std::vector<std::string> gpus = data_file(kGpuFile).value().root().keys();
  const auto gpu = std::ranges::find(gpus, catalogue_key(asked), catalogue_key);
  std::vector<std::string> with;
  for (const std::string& name : gpu != gpus.end() ? names : std::vector<std::string>()) {
    if (const NodeText node = read_node_text(nodes.section(name), true); node.gpu && node.gpu->spec.name == *gpu) {
      with.push_back(name);
    }
  }
  if (!with.empty()) {
    throw InputError({}, fmt::format("{} is a GPU, not a node; nodes with it: {}.", *gpu, fmt::join(with, ", ")));
  }
}

}  // namespace

std::vector<CatalogueItem> list_gpus() { return list_entries(kGpuFile); }
std::vector<CatalogueItem> list_nodes() { return list_entries(kNodeFile); }

GpuEntry find_gpu(const std::string& name) {
  ConfigReader gpus = data_file(kGpuFile).value().root();
  const std::string found = entry_name(gpus, "GPU", name);
  return read_gpu(gpus.section(found), found, true);
}

NodeEntry find_node(const std::string& name_or_path) {
  if (looks_like_path(name_or_path)) {
    const std::filesystem::path file(name_or_path);
    return read_node(Config::from_file(file).root(), file.stem().string(), false);
  }
  static LastMade<std::string, NodeEntry> entries(64);  // a study reads as many scenarios as it has points
  return *entries.get(catalogue_key(name_or_path), [&](const std::string&) {
    ConfigReader nodes = data_file(kNodeFile).value().root();
    refuse_gpu(nodes, name_or_path);
    const std::string found = entry_name(nodes, "node", name_or_path);
    return read_node(nodes.section(found), found, true);
  });
}

}  // namespace epsim
