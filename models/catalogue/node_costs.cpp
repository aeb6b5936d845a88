#include "models/catalogue/node_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/data_files.h"
#include "sim/core/last_made.h"

namespace epsim {
namespace {

constexpr char kCostFile[] = "models/hardware/costs.yaml";
constexpr double kNodeGpus = 8;  // that the power of a node's other parts is stated for

NodePrice read_price(ConfigReader& in, double usd_per_hour) {
  return {usd_per_hour, in.required<std::string>("seller"), in.choice("terms", price_terms()),
          in.required<std::string>("as_of"), in.required<std::string>("source")};
}

}  // namespace

std::string name_of(const NodePrice& price) {
  std::string terms = price.terms;
  std::replace(terms.begin(), terms.end(), '_', ' ');
  return price.as_of.empty() ? price.seller : fmt::format("{} {}, {}", price.seller, terms, price.as_of);
}

std::vector<std::string> price_terms() { return {"on_demand", "capacity_block", "1y", "3y", "ownership"}; }

std::vector<NodePrice> node_prices(const NodeSpec& node) {
  static LastMade<std::tuple<std::string, std::string, int>, std::vector<NodePrice>> prices(64);
  return *prices.get({node.name, node.gpu.name, node.gpus}, [](const auto& asked) {
    const auto& [name, gpu, gpus] = asked;
    std::vector<NodePrice> own, by_gpu;
    ConfigReader root = data_file(kCostFile).value().root();
    for (ConfigReader& in : root.list_of_sections("prices")) {
      if (in.maybe<std::string>("node") == name) {
        own.push_back(read_price(in, in.required<double>("usd_per_node_hour", Bound::kPositive)));
      } else if (in.maybe<std::string>("gpu") == gpu) {
        by_gpu.push_back(read_price(in, gpus * in.required<double>("usd_per_gpu_hour", Bound::kPositive)));
      }
    }
    own.insert(own.end(), by_gpu.begin(), by_gpu.end());
    return own;
  });
}

OwnPrice parse_price(const std::string& text) {
  const std::size_t at = text.rfind('=');
  const auto refuse = [&] {
    throw InputError({"", 0, "price"}, fmt::format("'{}' is not NODE=PRICE, as in p5en.48xlarge=31.6usd/h.", text));
  };
  if (at == std::string::npos || at == 0) {
    refuse();
  }
  OwnPrice out{text.substr(0, at)};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + at + 1, end, out.usd_per_hour);
  if (error != std::errc() || std::string_view(rest, end) != "usd/h" || !(out.usd_per_hour > 0)) {
    refuse();
  }
  return out;
}

namespace {

std::optional<NodePower> read_power(const std::string& gpu_name, int node_gpus, std::optional<double> own_pue) {
  ConfigReader power = data_file(kCostFile).value().root().section("power");
  ConfigReader gpus = power.section("gpus");
  if (!gpus.has(gpu_name)) {
    return std::nullopt;
  }
  ConfigReader gpu = gpus.section(gpu_name);
  const auto source = gpu.required<std::string>("source");
  if (const auto all_in = gpu.maybe<double>("all_in_watts")) {
    return NodePower{*all_in * node_gpus, *all_in * node_gpus, source};
  }
  ConfigReader shared = power.section("node");
  const double tdp = gpu.required<double>("tdp_watts") * node_gpus, part = node_gpus / kNodeGpus;
  const double always = (shared.required<double>("fixed_watts") + shared.required<double>("network_watts")) * part;
  const double fans = shared.required<double>("fans_watts") * part,
               pue = own_pue.value_or(shared.required<double>("pue"));
  const double idle = shared.required<double>("idle_share");
  return NodePower{pue * (always + idle * tdp), pue * (always + fans + tdp),
                   source + "; " + shared.required<std::string>("source")};
}

}  // namespace

std::optional<NodePower> node_power(const NodeSpec& node, std::optional<double> own_pue) {
  static LastMade<std::tuple<std::string, int, std::optional<double>>, std::optional<NodePower>> powers(64);
  return *powers.get({node.gpu.name, node.gpus, own_pue},
                     [](const auto& asked) { return std::apply(read_power, asked); });
}

}  // namespace epsim
