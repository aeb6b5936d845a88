#include "calibration/profile_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/text.h"

namespace epsim {
namespace {

constexpr std::size_t kLineWidth = 118;

// "[a, b, ...]" over lines of bounded width.
std::string flow_list(const std::vector<double>& values, int digits, const std::string& indent) {
  std::string out = "[", line;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string number = fmt::format("{:.{}f}", values[i], digits);
    const bool zero = std::strtod(number.c_str(), nullptr) == 0;  // no "-0.000", and no zeros to read
    const std::string item = fmt::format("{}{}", zero ? "0" : number, i + 1 < values.size() ? ", " : "");
    if (indent.size() + line.size() + item.size() > kLineWidth) {
      out += line + "\n" + indent;
      line.clear();
    }
    line += item;
  }
  return out + line + "]";
}

std::string errors_flow(const ErrorSummary& e) {
  return fmt::format("{{points: {}, median: {:.4f}, p95: {:.4f}, worst: {:.4f}}}", e.points, e.median, e.p95, e.worst);
}

std::string knots_yaml(const LogGrid& grid, const std::string& indent) {
  std::string out = indent + "knots_log2:\n";
  for (const LogGrid::Axis& axis : grid.axes()) {
    out += fmt::format("{}  {}: {}\n", indent, axis.name, flow_list(axis.knots, 4, indent + "    "));
  }
  return out;
}

// Whole thousandths in one text, over lines of bounded width.
std::string corrections_text(const std::vector<double>& values, const std::string& indent) {
  std::string out = "\"", line;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string item = fmt::format("{}{}", std::lround(values[i] * 1000), i + 1 < values.size() ? " " : "");
    if (indent.size() + line.size() + item.size() > kLineWidth) {
      line.pop_back();  // the line's end is read as a blank
      out += line + "\n" + indent;
      line.clear();
    }
    line += item;
  }
  return out + line + "\"";
}

std::string grid_yaml(const LogGrid& grid, const std::string& indent) {
  return knots_yaml(grid, indent) +
         fmt::format("{}correction: {}\n", indent, corrections_text(grid.values(), indent + "  "));
}

std::string op_yaml(const FittedOp& op) {
  const OpInfo& info = op_info(op.kind);
  std::string out = fmt::format("  - op: {}\n    dtype: {}\n    kernel: {}\n    source: {}\n", op.op,
                                in_quotes(op.dtype), in_quotes(op.kernel), in_quotes(op.source));
  out +=
      fmt::format("    peak: {:.6g}TF/s\n    bandwidth: {:.6g}GB/s\n    weight_bytes: {:g}\n    tile_rows: {:g}\n",
                  op.rates.flops_per_s / 1e12, op.rates.bytes_per_s / 1e9, op.rates.weight_bytes, op.rates.tile_rows);
  out += "    coefficients: {";
  for (std::size_t t = 0; t < count_names(info.terms); ++t) {
    out += fmt::format("{}{}: {:.6g}", t > 0 ? ", " : "", info.terms[t], op.coefficients[t]);
  }
  out += "}\n    held_out: " + errors_flow(op.held_out) + "\n";
  if (op.held_out_skewed) {
    out += "    held_out_skewed: " + errors_flow(*op.held_out_skewed) + "\n";
  }
  if (op.held_out_width) {
    out += "    held_out_width: " + errors_flow(*op.held_out_width) + "\n";
  }
  if (op.held_out_model) {
    out += "    held_out_model: " + errors_flow(*op.held_out_model) + "\n";
  }
  if (op.remote_rows) {
    out += "    remote_rows: {";
    for (std::size_t t = 0; t < kRemoteTerms.size(); ++t) {
      out += fmt::format("{}: {:.6g}, ", kRemoteTerms[t], op.remote_rows->coefficients[t]);
    }
    out += "held_out: " + errors_flow(op.remote_rows->held_out) + "}\n";
  }
  if (op.noise) {
    out += "    noise: " + errors_flow(*op.noise) + "\n";
  }
  out += "    hull_log2:\n";
  for (std::size_t a = 0; a < count_names(info.axes); ++a) {
    out += fmt::format("      {}: [{:.6f}, {:.6f}]\n", info.axes[a], op.hull[a][0], op.hull[a][1]);
  }
  out += grid_yaml(op.correction, "    ");
  out += "    supported: \"";
  for (const bool near : op.supported) {
    out += near ? '1' : '0';
  }
  out += "\"\n";
  if (!op.shapes.empty()) {
    out += "    shapes:\n";
    for (const ShapeCorrection& shape : op.shapes) {
      out += fmt::format("      - hidden: {:g}\n        intermediate: {:g}\n", shape.hidden, shape.intermediate);
      out += grid_yaml(shape.correction, "        ");
      if (shape.ranks) {
        out += "        ranks: {";
        for (std::size_t t = 0; t < kRankTerms.size(); ++t) {
          out += fmt::format("{}{}: {:.4g}", t > 0 ? ", " : "", kRankTerms[t], shape.ranks->at(t));
        }
        out += "}\n";
      }
    }
  }
  if (op.steps) {
    out += "    steps:\n" + grid_yaml(*op.steps, "      ");
  }
  return out;
}

std::string percent(const std::optional<ErrorSummary>& e) {
  return e && e->points > 0
             ? fmt::format("{:5.1f} {:6.1f} {:6.1f} {:7}", e->median * 100, e->p95 * 100, e->worst * 100, e->points)
             : fmt::format("{:>5} {:>6} {:>6} {:>7}", "-", "-", "-", "-");
}

}  // namespace

std::string profile_yaml(const FittedProfile& profile) {
  std::string out = "# Fitted by `epsim calibrate fit`; schema: calibration/FORMAT.md. Do not edit: fit again.\n";
  out += fmt::format("version: 3\nmachine: {}\ngpu: {}\nlicence: {}\nnotes: {}\nops:\n", in_quotes(profile.machine),
                     in_quotes(profile.gpu), in_quotes(profile.licence), in_quotes(profile.notes));
  for (const FittedOp& op : profile.ops) {
    out += op_yaml(op);
  }
  return out;
}

std::string errors_csv(const FittedProfile& profile) {
  std::string out = "op,groups,points,median,p95,worst,noise_points,noise_median,noise_p95\n";
  const auto line = [&](const FittedOp& op, const char* groups, const ErrorSummary& e) {
    const ErrorSummary noise = op.noise.value_or(ErrorSummary{});
    out += fmt::format("{},{},{},{:.4f},{:.4f},{:.4f},{},{:.4f},{:.4f}\n", op.op, groups, e.points, e.median, e.p95,
                       e.worst, noise.points, noise.median, noise.p95);
  };
  for (const FittedOp& op : profile.ops) {
    const bool grouped = op.kind == OpKind::kGroupedGemm;
    line(op, grouped ? "even" : "", op.held_out);
    if (op.held_out_skewed) {
      line(op, "skewed", *op.held_out_skewed);
    }
    if (op.held_out_width) {
      line(op, "new width", *op.held_out_width);
    }
    if (op.held_out_model) {
      line(op, "new hidden size", *op.held_out_model);
    }
    if (op.remote_rows) {
      line(op, "expert-parallel ranks", op.remote_rows->held_out);
    }
  }
  return out;
}

std::string profile_text(const FittedProfile& profile) {
  std::string out = fmt::format("machine {}, GPU {}\n{}\n", profile.machine, profile.gpu, profile.notes);
  out += "relative error on held-out points, %          median    p95  worst  points | repeated rows\n";
  for (const FittedOp& op : profile.ops) {
    const bool grouped = op.kind == OpKind::kGroupedGemm;
    out += fmt::format("  {:<40} {} | {}\n", op.op + (grouped ? ", even groups" : ""), "  " + percent(op.held_out),
                       percent(op.noise));
    if (op.held_out_skewed) {
      out += fmt::format("  {:<40} {}\n", op.op + ", uneven groups", "  " + percent(op.held_out_skewed));
    }
    if (op.held_out_width) {
      out += fmt::format("  {:<40} {}\n", op.op + ", widths not seen", "  " + percent(op.held_out_width));
    }
    if (op.held_out_model) {
      out += fmt::format("  {:<40} {}\n", op.op + ", hidden sizes not seen", "  " + percent(op.held_out_model));
    }
    if (op.remote_rows) {
      out += fmt::format("  {:<40} {}\n", op.op + ", expert-parallel ranks", "  " + percent(op.remote_rows->held_out));
    }
  }
  for (const FittedOp& op : profile.ops) {
    const OpInfo& info = op_info(op.kind);
    out += fmt::format("{} ({}, {}): {}\n  ", op.op, op.dtype, op.kernel, op.source);
    for (std::size_t t = 0; t < count_names(info.terms); ++t) {
      out += fmt::format("{} {:.3g}{}  ", info.terms[t], op.coefficients[t], info.terms[t] == "launch" ? " us" : "");
    }
    out += fmt::format("tile {:g}\n  measured for", op.rates.tile_rows);
    for (std::size_t a = 0; a < count_names(info.axes); ++a) {
      out += fmt::format("{} {} {:.4g}..{:.4g}", a > 0 ? "," : "", info.axes[a], std::exp2(op.hull[a][0]),
                         std::exp2(op.hull[a][1]));
    }
    out += "\n";
    for (const ShapeCorrection& shape : op.shapes) {
      out += fmt::format("  experts of {:g} x {:g}\n", shape.hidden, shape.intermediate);
    }
  }
  return out;
}

std::string points_text(const PointFile& points) {
  std::string out;
  for (const ProvenanceField& field : provenance_fields()) {
    if (!(points.provenance.*field.text).empty()) {
      out += fmt::format("{:<13} {}\n", field.name, points.provenance.*field.text);
    }
  }
  for (const PointTable& table : points.tables) {
    out += fmt::format("{}: {} points over {}\n", table.op, table.size(), fmt::join(table.columns, ", "));
    for (const auto& [name, text] : table.attributes) {
      out += fmt::format("  {}: {}\n", name, text);
    }
  }
  return out;
}

std::string points_csv(const PointTable& table) {
  std::string out = fmt::format("{},time_s,rel_error,repeats\n", fmt::join(table.columns, ","));
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (const std::vector<double>& column : table.values) {
      out += fmt::format("{},", column[i]);
    }
    out += fmt::format("{},{},{}\n", table.time_s[i], table.rel_error[i], table.repeats[i]);
  }
  return out;
}

}  // namespace epsim
