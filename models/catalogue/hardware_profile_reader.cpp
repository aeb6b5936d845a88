// Reads compute and link profiles; their schema is described in models/hardware/README.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/catalogue/data_files.h"
#include "models/catalogue/hardware_profile.h"
#include "models/catalogue/profiles.h"

namespace epsim {
namespace {

Origin read_origin(ConfigReader& in) {
  const std::vector<std::string> names(kOriginNames.begin(), kOriginNames.end());
  const std::string name = in.choice("origin", names);
  return static_cast<Origin>(std::find(names.begin(), names.end(), name) - names.begin());
}

// A figure that is borrowed is no better than extrapolated.
Origin borrowed(Origin origin, const std::string& carried_over) {
  return carried_over.empty() ? origin : weaker(origin, Origin::kExtrapolated);
}

Figure read_figure(ConfigReader in, const std::string& carried_over, double scale = 1) {
  Figure out;
  out.value = in.required<double>("value", Bound::kPositive) * scale;
  out.origin = borrowed(read_origin(in), carried_over);
  out.source = in.required<std::string>("source");
  return out;
}

void check_lengths(const ConfigReader& in, const std::string& key, std::size_t have, std::size_t want) {
  in.check(have == want, key, fmt::format("has {} values, but there are {} sizes.", have, want));
}

void check_curve(const ConfigReader& in, const std::string& key, const EfficiencyCurve& curve) {
  in.check(!curve.points.empty(), key, "a curve needs at least one point.");
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const auto [rows, fraction] = curve.points[i];
    in.check(i == 0 || rows > curve.points[i - 1].rows, key, "sizes must grow from point to point.");
    in.check(fraction > 0 && fraction <= 1, key,
             fmt::format("point {} is {:.3g} of the peak; a share is in 0..1.", i + 1, fraction));
  }
}

EfficiencyCurve read_dense(ConfigReader in, FlopsPerSecond peak, const std::string& carried_over) {
  EfficiencyCurve curve;
  curve.origin = borrowed(Origin::kMeasured, carried_over);
  curve.source = in.required<std::string>("source");
  const auto rows = in.required<std::vector<double>>("rows", Bound::kPositive);
  const auto tflops = in.required<std::vector<double>>("tflops", Bound::kPositive);
  check_lengths(in, "tflops", tflops.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    curve.points.push_back({rows[i], tflops[i] * 1e12 / peak.count()});
  }
  check_curve(in, "tflops", curve);
  return curve;
}

GroupedGemmCurve read_shape(ConfigReader in, FlopsPerSecond peak, const std::string& source,
                            const std::string& carried_over) {
  GroupedGemmCurve out;
  out.hidden = in.required<int>("hidden", Bound::kPositive);
  out.intermediate = in.required<int>("intermediate", Bound::kPositive);
  out.experts = in.required<int>("experts", Bound::kPositive);
  const int top_k = in.required<int>("top_k", Bound::kPositive);
  out.curve.source = in.maybe<std::string>("source").value_or(source);
  out.curve.origin = borrowed(Origin::kMeasured, carried_over);
  const auto tokens = in.required<std::vector<double>>("tokens", Bound::kPositive);
  const auto ms = in.required<std::vector<double>>("ms", Bound::kPositive);
  check_lengths(in, "ms", ms.size(), tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    // Gate, up and down projections: 3 matrices, 2 flops per weight and row.
    const double flops = tokens[i] * top_k * 6.0 * out.hidden * out.intermediate;
    out.curve.points.push_back({tokens[i] * top_k / out.experts, flops / (ms[i] * 1e-3) / peak.count()});
  }
  check_curve(in, "ms", out.curve);
  return out;
}

struct LinkText {
  bool inter = false;
  BytesPerSecond rate{};
  std::string source;
  std::vector<double> mib;
};

// The share of a buffer that passes a GPU's share of the link; see CollectiveCurve::wire_share.
double read_wire_share(ConfigReader& in, const LinkText& link, int gpus_per_node, CollectiveKind kind, int gpus) {
  if (const auto stated = in.maybe<double>("wire_share", Bound::kPositive)) {
    return *stated;
  }
  if (in.has("tokens")) {
    return 1.0;  // rows_per_token counts what this tier carries
  }
  if (!link.inter) {
    return (is_all_reduce(kind) ? 2.0 : 1.0) * (gpus - 1) / gpus;
  }
  in.check(kind == CollectiveKind::kAllToAll, "kind", "between nodes only an all-to-all may leave out wire_share.");
  in.check(gpus > gpus_per_node, "gpus", "must be more than one node has.");
  return static_cast<double>(gpus - gpus_per_node) / gpus;
}

std::vector<double> read_times(ConfigReader& in, const std::vector<double>& sizes) {
  auto us = in.maybe<std::vector<double>>("us", Bound::kPositive);
  const auto algbw = in.maybe<std::vector<double>>("algbw_gbps", Bound::kPositive);
  in.check(us.has_value() != algbw.has_value(), us ? "us" : "kind", "a curve has either us or algbw_gbps.");
  if (us) {
    check_lengths(in, "us", us->size(), sizes.size());
    return *std::move(us);
  }
  check_lengths(in, "algbw_gbps", algbw->size(), sizes.size());
  std::vector<double> times;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    times.push_back(sizes[i] / ((*algbw)[i] * 1e9) * 1e6);
  }
  return times;
}

// Sizes of a curve in bytes that a GPU's share of the link carries, before wire_share: buffers in MiB, or tokens that
// each make `rows_per_token` rows of `row_bytes` on this tier.
std::vector<double> read_sizes(ConfigReader& in, const LinkText& link) {
  std::vector<double> bytes;
  if (const auto tokens = in.maybe<std::vector<double>>("tokens", Bound::kPositive)) {
    in.check(!in.has("mib"), "mib", "a curve has either mib or tokens.");
    const auto rows = in.required<double>("rows_per_token", Bound::kPositive);
    const auto row = in.required<double>("row_bytes", Bound::kPositive);
    for (const double count : *tokens) {
      bytes.push_back(count * rows * row);
    }
    return bytes;
  }
  for (const double mib : in.maybe<std::vector<double>>("mib", Bound::kPositive).value_or(link.mib)) {
    bytes.push_back(mib * kMiB);
  }
  return bytes;
}

CollectiveCurve read_collective(ConfigReader in, const LinkText& link, const LinkProfile& profile) {
  CollectiveCurve out;
  const std::vector<std::string> names(std::begin(kCollectiveNames), std::end(kCollectiveNames));
  const std::string kind = in.choice("kind", names);
  out.kind = static_cast<CollectiveKind>(std::find(names.begin(), names.end(), kind) - names.begin());
  out.gpus = in.required<int>("gpus", Bound::kPositive);
  in.check(out.gpus >= 2, "gpus", "a collective needs at least 2 GPUs.");
  out.engines = in.maybe<std::vector<std::string>>("engines").value_or(std::vector<std::string>{});
  out.wire_share = read_wire_share(in, link, profile.gpus_per_node, out.kind, out.gpus);
  out.link_rate = link.rate;
  out.origin = borrowed(Origin::kMeasured, profile.carried_over);
  out.source = in.maybe<std::string>("source").value_or(link.source);
  const auto own_base = in.maybe<double>("base_us", Bound::kPositive);
  const Price base = profile.base(out.gpus);
  out.own_base = own_base.has_value();
  out.base_origin = own_base ? out.origin : base.origin;
  const std::vector<double> sizes = read_sizes(in, link);
  in.check(!sizes.empty(), "kind", "the curve has no sizes: give mib here or for the whole file, or tokens.");
  const std::vector<double> us = read_times(in, sizes);
  out.points.push_back({Bytes(0), own_base ? Seconds(*own_base * 1e-6) : base.time, Seconds(0)});
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Bytes size(sizes[i]);
    const CollectiveCurve::Point point{size, Seconds(us[i] * 1e-6), size * out.wire_share / link.rate};
    in.check(point.bytes > out.points.back().bytes, in.has("tokens") ? "tokens" : "mib",
             "sizes must grow from point to point.");
    // A custom all-reduce changes its kernel with the size, and not always where the next one is as fast (vLLM's on 8
    // B200: 26 us, then 17).
    const double least = out.kind == CollectiveKind::kCustomAllReduce ? 0.6 : 1.0;
    in.check(point.time >= out.points.back().time * least, "kind",
             fmt::format("a larger buffer takes less time (point {}, {:.1f} us).", i + 1, us[i]));
    out.points.push_back(point);
  }
  if (in.has("held_out")) {
    out.held_out = read_error_summary(in.section("held_out"));
  }
  return out;
}

void read_base(ConfigReader in, bool inter, LinkProfile& out) {
  const auto per_message = in.maybe<double>("per_message", Bound::kPositive);
  in.check(inter || !per_message, "per_message", "only between nodes: inside one every GPU stores to the others.");
  out.per_message = Seconds(per_message.value_or(0) * 1e-6);
  out.base_latency = read_figure(in, out.carried_over, 1e-6);
}

void borrow_curves(ConfigReader in, LinkProfile& out) {
  const auto kinds = in.required<std::vector<std::string>>("kinds");
  const auto from = in.required<std::string>("from");
  // Catalogue files do not borrow in a circle; files of users could.
  in.check(!looks_like_path(from), "from", "must be a link profile of the catalogue.");
  const auto reason = in.required<std::string>("reason");
  const LinkProfile lender = link_profile(from, reason);
  out.borrowed = fmt::format("{} from {}, since {}", fmt::join(kinds, ", "), from, reason);
  for (CollectiveCurve curve : lender.curves) {
    if (std::find(kinds.begin(), kinds.end(), kCollectiveNames[static_cast<int>(curve.kind)]) == kinds.end()) {
      continue;
    }
    if (!curve.own_base) {  // what a message costs is the borrower's own
      const Price base = out.base(curve.gpus);
      curve.points.front().time = std::min(base.time, curve.points[1].time);
      curve.base_origin = base.origin;
    }
    out.curves.push_back(std::move(curve));
  }
}

}  // namespace

ComputeProfile compute_profile(const std::string& name, const std::string& carried_over) {
  const Config document = data_document("hardware/compute", name, "compute profile");
  ConfigReader in = document.root();
  ComputeProfile out;
  out.name = name;
  out.carried_over = carried_over;
  const auto peak = in.required<FlopsPerSecond>("peak", Bound::kPositive);
  out.peak = peak;
  out.dense_gemm = read_dense(in.required_section("dense_gemm"), peak, carried_over);
  ConfigReader grouped = in.required_section("grouped_gemm");
  const auto source = grouped.required<std::string>("source");
  for (ConfigReader& shape : grouped.list_of_sections("shapes")) {
    out.grouped_gemm.push_back(read_shape(shape, peak, source, carried_over));
  }
  grouped.check(!out.grouped_gemm.empty(), "shapes", "at least one measured shape is required.");
  ConfigReader figures = in.required_section("figures");
  const auto figure = [&](const char* key, double scale = 1) {
    return read_figure(figures.required_section(key), carried_over, scale);
  };
  out.weight_read = figure("weight_read");
  out.memory_bound = figure("memory_bound");
  out.kernel_constant = figure("kernel_constant_us", 1e-6);
  out.attention_prefill = figure("attention_prefill");
  out.attention_decode = figure("attention_decode");
  if (in.has("kernels")) {
    in.check(!in.has("fitted"), "fitted", "a profile has either fitted, for all engines, or kernels, by engine.");
    ConfigReader kernels = in.section("kernels");
    for (const std::string& engine : kernels.keys()) {
      kernels.check(engine != "deepep", engine,
                    "the kernels of a backend's experts are `expert_kernels: {deepgemm: FIT}`, next to `kernels`.");
      out.kernels.push_back({engine, kernels.required<std::vector<std::string>>(engine)});
      kernels.check(!out.kernels.back().fits.empty(), engine, "names the fits of its kernels, at least one.");
    }
    out.use_kernels_of(out.kernels.front().engine);
    for (const auto& [key, kind] :
         {std::pair("expert_kernels", OpKind::kGroupedGemm), {"dense_kernels", OpKind::kDenseGemm}}) {
      ConfigReader backends = in.section(key);
      for (const std::string& backend : backends.keys()) {
        out.backends.push_back({kind, backend, backends.required<std::string>(backend)});
      }
    }
  } else if (const auto fitted = in.maybe<std::string>("fitted")) {
    const std::string which = looks_like_path(*fitted) ? in.path("fitted").string() : *fitted;
    out.fitted = std::make_shared<const FittedProfile>(fitted_profile(which));
  }
  in.finish();
  return out;
}

namespace {

const EngineKernels* kernels_of(const ComputeProfile& profile, std::string_view engine) {
  const auto found = std::ranges::find(profile.kernels, engine, &EngineKernels::engine);
  return found == profile.kernels.end() ? nullptr : &*found;
}

}  // namespace

void ComputeProfile::use_kernels_of(const std::string& engine) {
  if (kernels.empty()) {
    return;
  }
  const EngineKernels* own = kernels_of(*this, engine);
  own = own == nullptr ? kernels.data() : own;
  FittedProfile all = fitted_profile(own->fits.front());
  stand_ins.clear();
  for (std::size_t i = 1; i < own->fits.size(); ++i) {
    for (std::string& op : all.complete_from(fitted_profile(own->fits[i]))) {
      stand_ins.push_back({std::move(op), own->fits[i]});
    }
  }
  fitted = std::make_shared<const FittedProfile>(std::move(all));
}

namespace {

const BackendKernels* backend_of(const ComputeProfile& profile, OpKind kind, std::string_view backend) {
  const auto found = std::find_if(profile.backends.begin(), profile.backends.end(),
                                  [&](const BackendKernels& k) { return k.kind == kind && k.backend == backend; });
  return found == profile.backends.end() ? nullptr : &*found;
}

}  // namespace

bool ComputeProfile::has_backend(OpKind kind, std::string_view backend) const {
  return backend_of(*this, kind, backend) != nullptr;
}

ComputeProfile ComputeProfile::with_backend(OpKind kind, std::string_view backend) const {
  ComputeProfile out = *this;
  if (const BackendKernels* own = backend_of(*this, kind, backend)) {
    FittedProfile all = *fitted;
    for (const FittedOp& op : fitted_profile(own->fit).ops) {
      if (op.kind == kind) {
        std::erase_if(all.ops, [&](const FittedOp& other) { return other.op == op.op; });
        all.ops.push_back(op);
      }
    }
    out.fitted = std::make_shared<const FittedProfile>(std::move(all));
  }
  return out;
}

LinkProfile link_profile(const std::string& name, const std::string& carried_over) {
  const Config document = data_document("hardware/links", name, "link profile");
  ConfigReader in = document.root();
  LinkProfile out;
  out.name = name;
  out.carried_over = carried_over;
  LinkText link;
  link.inter = in.choice("tier", {"intra", "inter"}) == "inter";
  out.gpus_per_node = link.inter ? in.required<int>("gpus_per_node", Bound::kPositive) : 0;
  link.rate = in.required<BytesPerSecond>("link_rate", Bound::kPositive);
  link.source = in.required<std::string>("source");
  link.mib = in.maybe<std::vector<double>>("mib", Bound::kPositive).value_or(std::vector<double>{});
  read_base(in.required_section("base_latency"), link.inter, out);
  for (ConfigReader& curve : in.list_of_sections("curves")) {
    out.curves.push_back(read_collective(curve, link, out));
  }
  if (in.has("borrow")) {
    borrow_curves(in.section("borrow"), out);
  }
  const bool exchanges = std::any_of(out.curves.begin(), out.curves.end(),
                                     [](const auto& c) { return c.kind == CollectiveKind::kAllToAll; });
  in.check(exchanges, "curves", "at least one all_to_all curve is required, here or borrowed.");
  in.finish();
  return out;
}

}  // namespace epsim
