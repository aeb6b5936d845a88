#include "sim/verbs/capacity_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "policies/registry.h"
#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"
#include "sim/scenario/engine_defaults.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/capacity_scenario.h"
#include "sim/study/study_manifest.h"
#include "sim/verbs/capacity_demand.h"
#include "sim/verbs/capacity_space.h"

namespace epsim {

namespace {

constexpr int kCapacityFormat = 1;     // of study.json
constexpr double kAskedFillings = 10;  // GoodputOptions::min_requests_ratio of a question
constexpr std::size_t kQuickRequests = 300, kMostQuickRequests = 3000;  // more where a run of the first is unclear

// "p99=2s" of --ttft as a term of --slo.
Slo slo_of(CapacityGiven& given) {
  std::string text = given.word("slo").value_or("");
  for (const char* metric : {"ttft", "tpot", "e2e"}) {
    if (const auto bound = given.word(metric)) {
      const bool plain = bound->find_first_of("=<") == std::string::npos;
      const std::string term = std::string(metric) + (plain ? "<" : ".") + *bound;
      of_option(metric, [&] { return parse_slo(term); });
      text += (text.empty() ? "" : ",") + term;
    }
  }
  refuse_if(text.empty(), "slo", "name what the deployment must hold, as in --ttft p99=2s --tpot p99=50ms.");
  Slo slo = parse_slo(text);
  for (const SloTerm& low : slo.terms) {
    for (const SloTerm& high : slo.terms) {
      const bool percentiles = low.stat >= LatencyStat::kP50 && low.stat < high.stat;
      refuse_if(
          low.metric == high.metric && percentiles && low.bound > high.bound, "slo",
          fmt::format("{} contradicts {}: a percentile is never above a higher one.", name_of(low), name_of(high)));
    }
  }
  return slo;
}

// "craft:8" has 8 copies under the label craft_r8: the policy's replication_factor or else its num_redundant_experts.
std::vector<std::string> read_policies(const std::vector<std::string>& names, std::vector<std::string>& settings) {
  constexpr std::string_view kPerGpu = "replication_factor";
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const std::size_t colon = name.find(':');
    if (colon == std::string::npos) {
      out.push_back(name);
      continue;
    }
    const std::string kind = name.substr(0, colon), copies = name.substr(colon + 1);
    refuse_if(copies.empty() || copies.size() > 6 || copies.find_first_not_of("0123456789") != std::string::npos,
              "policies", fmt::format("'{}' is neither POLICY nor POLICY:COPIES, as in craft:8 and eplb:32.", name));
    const PlacementPolicyEntry* entry = find_named(placement_policies(), kind);
    const bool per_gpu = entry != nullptr && std::any_of(entry->keys.begin(), entry->keys.end(),
                                                         [&](const Key& key) { return key.name == kPerGpu; });
    out.push_back(kind + "_r" + copies);
    settings.push_back(fmt::format("policies.{}={{kind: {}, {}: {}}}", out.back(), kind,
                                   per_gpu ? kPerGpu : "num_redundant_experts", copies));
  }
  return out;
}

// `texts`: NODE=PRICE, or a file with one of these on each line and comments behind #.
std::vector<OwnPrice> read_prices(const std::vector<std::string>& texts) {
  std::vector<OwnPrice> out;
  const auto add = [&](const std::string& text) {
    OwnPrice price = parse_price(text);
    of_option("price", [&] { return find_node(price.node); });  // throws where there is none
    refuse_if(std::ranges::any_of(out, [&](const OwnPrice& other) { return other.node == price.node; }), "price",
              fmt::format("{} has two prices; give one.", price.node));
    out.push_back(std::move(price));
  };
  for (const std::string& text : texts) {
    if (text.find('=') != std::string::npos) {
      add(text);
      continue;
    }
    refuse_if(!std::filesystem::exists(text), "price",
              fmt::format("'{}' is neither a file nor NODE=PRICE, as in p5en.48xlarge=31.6usd/h.", text));
    std::istringstream lines(read_file(text));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      line.erase(std::min(line.find('#'), line.size()));
      line.erase(std::remove_if(line.begin(), line.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
                 line.end());
      try {
        if (!line.empty()) {
          add(line);
        }
      } catch (const InputError& e) {
        throw InputError({text, number, "price"}, e.problem);
      }
    }
  }
  return out;
}

// What the search itself chooses, pays for and writes into launch files has options of its own.
struct Chosen {
  const char *section, *key, *option, *example;
};
constexpr Chosen kChosen[] = {{"cluster", "node", "nodes", ""},
                              {"cluster", "nodes", "sizes", ", as in 4"},
                              {"cluster", "gpus_per_node", "sizes", ", as in 64gpus or 1/2"},
                              {"parallelism", "attention_tp", "attention-tp", ""},
                              {"parallelism", "ep_size", "ep-size", ", as in 1"},
                              {"model", "dtype", "dtypes", ""},
                              {"serving", "engine", "engines", ""}};

void check_settings(const std::vector<std::string>& settings) {
  Config config = Config::from_text("{}", "");
  config.set(settings);
  for (const Chosen& chosen : kChosen) {
    refuse_if(config.root().section(chosen.section).has(chosen.key), fmt::format("{}.{}", chosen.section, chosen.key),
              fmt::format("this is a choice of the search: give --{}{}.", chosen.option, chosen.example));
  }
}

// What nodes cost, and what the deployment may.
void read_costs(CapacityGiven& given, CapacityPlan& plan) {
  plan.prices.terms = given.word("terms").value_or("on_demand");
  const auto terms = price_terms();
  refuse_if(std::find(terms.begin(), terms.end(), plan.prices.terms) == terms.end(), "terms",
            unknown_name("terms", plan.prices.terms, terms));
  plan.prices.own = read_prices(given.repeated("price"));
  if (given.word("pue")) {
    plan.prices.pue = given.number("pue", 1, 1);
  }
  plan.prices.usd_per_kwh = given.quantity("kwh", "usd/kWh", 0, true);
  refuse_if(plan.prices.usd_per_kwh > 0 && plan.prices.own.empty(), "kwh",
            "listed prices include power; --kwh applies to your own prices, given by --price.");
  plan.most_usd_per_hour = given.quantity("budget", "usd/h", 0);
  plan.most_watts = 1e3 * given.quantity("power", "kW", 0);
}

CapacityRequest read_question(const CapacityWords& words, CapacityGiven& given) {
  CapacityRequest out;
  CapacityQuestion& q = out.question;
  out.quick = given.flag("quick");
  const auto model = given.word("model");
  refuse_if(!model, "model", "name the model, as in --model kimi-k2");
  q.model = *model;
  q.dense = of_option("model", [&] { return find_model(*model); }).dense();  // throws where there is none
  q.options.slo = slo_of(given);
  q.options.min_requests_ratio = kAskedFillings;
  out.growth = given.number("growth", 0);
  q.spare = given.whole("spare", 0, 0);
  read_costs(given, out.plan);
  q.settings = given.scenario();
  q.policies = read_policies(given.list("policies", q.dense     ? "base"
                                                    : out.quick ? std::string(experts_in_order().name)
                                                                : "contiguous,base,eplb,craft"),
                             q.settings);
  if (const auto own = words.find("set"); own != words.end()) {
    refuse_repeated(own->second);
    q.settings.insert(q.settings.end(), own->second.begin(), own->second.end());
  }
  check_settings(q.settings);
  q.seeds = given.whole("seeds", out.quick ? 0 : 3, 0);
  out.asked_rate = read_demand(given, out.growth, out.question, out.plan);
  q.most_nodes = given.whole("max-nodes", 128, 1);
  out.plan.most_nodes = q.most_nodes;
  if (out.quick) {
    q.first_requests = kQuickRequests;
    q.most_requests = kMostQuickRequests;
    q.check_whole = q.in_flight > 0;
    q.every_what_if = false;
  }
  read_space(given, q, out.quick);
  for (CapacityDesign& layout : q.layouts) {
    check_settings(layout.settings);
    layout.knobs = knobs_for_memory(q, layout);
  }
  refuse_if(q.layouts.empty(), "attention-tp",
            "no layout is left: a value has to divide the GPUs of a node (of a part of one, of a dense model be all "
            "of the instance's), parts of a node have to divide its GPUs, and they and nodes without a network "
            "make instances of one node at most, prefill and decode together.");
  q.power_counts = power_counts(out.plan.most_watts, out.plan.prices);
  out.plan.model = q.model;
  out.plan.dense = q.dense;
  out.plan.rate = q.rate;
  out.plan.in_flight = q.in_flight;
  out.plan.slo = q.options.slo;
  given.finish();
  check_values(q);  // before the study has a folder
  return out;
}

// The error with its place in the file, where a value of the file is what is wrong.
InputError as_written(const CapacityGiven& given, const InputError& e) {
  std::string key = e.place.key;
  for (const Chosen& chosen : kChosen) {  // a scenario that the search made refuses what an option named
    key = key == fmt::format("{}.{}", chosen.section, chosen.key) ? chosen.option : key;
  }
  const bool placed = !e.place.file.empty() && e.place.file != "--set";  // which the file's `scenario` becomes
  const auto place = placed || key.empty() ? std::nullopt : given.place_in_file(key);
  return place ? InputError(*place, e.problem) : e;
}

}  // namespace

CapacityRequest read_capacity_request(const CapacityWords& words, const std::optional<Config>& file) {
  if (file) {
    file->root().check(!file->root().is_section("model"), "model",
                       "this is a scenario; capacity takes a question, as in experiments/capacity/kimi-k2.yaml, or "
                       "options alone.");
  }
  CapacityGiven given(words, file);
  try {
    return read_question(words, given);
  } catch (const InputErrors& e) {
    throw_all(mapped(e.all, [&](const InputError& one) { return as_written(given, one); }));
    throw;
  } catch (const InputError& e) {
    throw as_written(given, e);
  }
}

std::string capacity_manifest(const CapacityRequest& request) {
  const CapacityQuestion& q = request.question;
  nlohmann::ordered_json asked{{"model", q.model},
                               {"rate", q.rate},
                               {"in_flight", q.in_flight},
                               {"settings", q.settings},
                               {"options", goodput_options_json(q.options)},
                               {"requests", {q.first_requests, q.most_requests}},
                               {"seeds", q.seeds}};
  asked["files"] = described_files(input_files_of(q));
  nlohmann::ordered_json out = manifest_head(kCapacityFormat);
  out["question"] = std::move(asked);
  return document_text(out);
}

CapacityPlan plan_capacity(const CapacityRequest& request, const CapacityControl& control) {
  CapacityPlan plan = request.plan;
  answer_capacity(plan, request.question, control);
  if (plan.feasible) {
    const std::vector<CapacityPool>& pools = plan.study.options[plan.order.front()].pools;
    const std::string& policy = pools.front().design.policy;
    const Scenario scenario = read_scenario(capacity_scenario(request.question, pools), {policy});
    plan.warnings = all_warnings(scenario);
    for (const InstancePool& pool : pools_of(scenario)) {
      const bool in_place = scenario.model.dense() || policy == experts_in_order().name;
      const std::string wrong(in_place ? "" : moved_experts_warning(pool));
      if (!wrong.empty() && std::ranges::find(plan.warnings, wrong) == plan.warnings.end()) {
        plan.warnings.push_back(wrong);
      }
    }
  }
  if (control.store != nullptr) {
    control.store->finish();
  }
  return plan;
}

}  // namespace epsim
