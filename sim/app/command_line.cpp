#include "sim/app/command_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <thread>
#include <typeinfo>
#include <utility>

#include "sim/core/choice.h"
#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"
#include "sim/scenario/engine_defaults.h"
#include "sim/scenario/scenario_keys.h"

namespace epsim::app {

namespace {

std::vector<std::string> option_names(const po::options_description& options) {
  return mapped(options.options(), [](const auto& option) { return "--" + option->long_name(); });
}

// A key of a scenario that was given as an option of its own: how to give it.
std::string as_setting(const po::options_description& options, const std::string& option) {
  const std::string key = option.substr(option.find_first_not_of('-'));
  if (key == "policies") {
    return " Here it is one policy: --set policy=NAME; `epsim compare` takes several.";
  }
  const bool known = std::ranges::find(scenario_keys(), key, &ScenarioKey::path) != scenario_keys().end();
  return known && options.find_nothrow("set", false) != nullptr
             ? fmt::format(" `{}` is a key of the scenario: --set {}=VALUE.", key, key)
             : "";
}

// What an option's value has to be; "" where any text is.
std::string taken_by(const po::options_description& options, const std::string& option) {
  const std::string name = option.substr(option.find_first_not_of('-'));
  const po::option_description* found = options.find_nothrow(name, false);
  const auto* value = found == nullptr ? nullptr : dynamic_cast<const po::typed_value_base*>(found->semantic().get());
  if (value == nullptr || value->value_type() == typeid(std::string)) {
    return "";
  }
  if (value->value_type() == typeid(double)) {
    return "; a number is needed";
  }
  return value->value_type() == typeid(int) ? "; a whole number is needed, at most 2147483647"
                                            : "; a whole number is needed";
}

// Keys that a file of `epsim capacity` has and no scenario.
void refuse_capacity_file(const ConfigReader& root, const std::string& name) {
  refuse_if(!root.has("cluster") && (root.has("slo") || root.has("sizes")), {name, 0, ""},
            fmt::format("this is a file for `epsim capacity`, not a scenario: epsim capacity {}", name));
}

}  // namespace

int call_verb(std::span<const Verb> verbs, const std::string& kind, const std::vector<std::string>& words) {
  for (const Verb& verb : verbs) {
    if (words[0] == verb.name) {
      try {
        return verb.run({words.begin() + 1, words.end()});
      } catch (const HelpShown&) {
        return 0;
      }
    }
  }
  throw InputError({}, unknown_name(kind, words[0], entry_names(verbs)));
}

po::variables_map parse_words(const std::vector<std::string>& words, const std::string& usage,
                              po::options_description options, const std::vector<std::string>& positional) {
  options.add_options()("help,h", "show this text");
  po::options_description all = options;
  po::positional_options_description places;
  for (const std::string& name : positional) {
    all.add_options()(name.c_str(), po::value<std::string>());
    places.add(name.c_str(), 1);
  }
  po::variables_map values;
  try {
    po::store(po::command_line_parser(words)
                  .options(all)
                  .positional(places)
                  .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
                  .run(),
              values);
  } catch (const po::unknown_option& e) {
    throw InputError({}, unknown_name("option", e.get_option_name(), option_names(options)) +
                             as_setting(options, e.get_option_name()));
  } catch (const po::too_many_positional_options_error&) {
    throw InputError({}, fmt::format("too many arguments.\n{}", usage));
  } catch (const po::invalid_option_value& e) {
    throw InputError({}, fmt::format("{}{}.", e.what(), taken_by(options, e.get_option_name())));
  } catch (const po::error& e) {
    throw InputError({}, fmt::format("{}.", e.what()));
  }
  if (values.count("help") > 0) {
    std::cout << usage << "\n" << options;
    throw HelpShown();
  }
  return values;
}

std::vector<std::string> option_list(const po::variables_map& values, const std::string& option, const char* what) {
  if (values.count(option) == 0) {
    return {};
  }
  std::vector<std::string> out = split_list(values[option].as<std::string>());
  refuse_if(out.empty(), option, fmt::format("the list is empty; it takes {} separated by commas.", what));
  return out;
}

void add_scenario_options(po::options_description& options) {
  options.add_options()("set", po::value<std::vector<std::string>>(),
                        "override one value of the scenario, as in --set requests.rate=8/s; repeatable")(
      "seed", po::value<std::string>(), "seed of every random stream; short for --set seed=N");
}

std::vector<std::string> assignments_of(const po::variables_map& values) {
  auto out = values.count("set") > 0 ? values["set"].as<std::vector<std::string>>() : std::vector<std::string>{};
  refuse_repeated(out);
  return out;
}

void print_warnings(const Scenario& scenario) {
  for (const std::string& warning : all_warnings(scenario)) {
    std::cerr << "warning: " << warning << "\n";
  }
}

Config open_scenario(const po::variables_map& values) {
  refuse_if(values.count("scenario") == 0, "",
            "name the scenario file, as in experiments/quickstart/deepseek-r1-p4de.yaml");
  const std::string name = values["scenario"].as<std::string>();
  // Without the folder that our scenarios are in, the name is hardly misspelt.
  const bool ours = name.starts_with("experiments/") && !std::filesystem::exists(shipped_file("experiments"));
  Config config = Config::from_file(ours ? own_file(name) : shipped_file(name));
  refuse_capacity_file(config.root(), name);
  const std::vector<std::string> assignments = assignments_of(values);
  config.set(assignments);
  if (values.count("seed") > 0) {
    refuse_if(std::ranges::any_of(assignments, [](const auto& a) { return a.starts_with("seed="); }), "seed",
              "--set seed=... says the same; give one of the two.");
    config.set("seed=" + values["seed"].as<std::string>(), "--seed");
  }
  return config;
}

void add_output_options(po::options_description& options) {
  options.add_options()("output,o", po::value<std::string>(),
                        "folder for the results; default: a new one below out/, named after the scenario")(
      "overwrite", po::bool_switch(), "replace the folder if it holds results")(
      "threads", po::value<int>()->default_value(0),
      "threads for independent runs; 0 = all cores; results do not "
      "depend on it")("quiet,q", po::bool_switch(), "no progress");
}

void add_calibration_option(po::options_description& options) {
  options.add_options()("strict-calibration", po::bool_switch(),
                        "refuse runs priced outside what was measured, or from other hardware's measurements");
}

std::size_t workers_of(const po::variables_map& values) {
  const int threads = values["threads"].as<int>();
  refuse_if(threads < 0 || threads > 4096, "threads",
            fmt::format("{} is not a number of threads from 0 (all cores) to 4096.", threads));
  return threads > 0 ? static_cast<std::size_t>(threads) : std::max(1U, std::thread::hardware_concurrency());
}

ProgressBoard progress_board(bool quiet, ProgressOptions options) {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.columns = size.ws_col;
  }
  options.quiet = quiet;
  options.terminal = isatty(STDERR_FILENO) == 1;
  return {std::cerr, std::move(options)};
}

}  // namespace epsim::app
