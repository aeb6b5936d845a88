// What the verbs share: their table, their common options, interruption.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sim/app/output.h"
#include "sim/app/po.h"
#include "sim/core/config.h"
#include "sim/core/files.h"
#include "sim/core/interrupt.h"
#include "sim/report/progress.h"
#include "sim/scenario/scenario.h"

namespace epsim::app {

// A verb takes the words after its name and returns the exit code: 0 done, 1 the run failed, 2 bad input (thrown as
// InputError), 3 no deployment (capacity) or no policy (goodput) holds the SLO, 130 interrupted; diagnose answers with 10
// on, 11 off, 12 unsure.
struct Verb {
  const char* name;
  const char* summary;  // one line for `epsim --help`
  int (*run)(const std::vector<std::string>& words);
};

int goodput_verb(const std::vector<std::string>& words);
int run_verb(const std::vector<std::string>& words);
int compare_verb(const std::vector<std::string>& words);
int plan_verb(const std::vector<std::string>& words);
int calibrate_verb(const std::vector<std::string>& words);
int reproduce_verb(const std::vector<std::string>& words);
int init_verb(const std::vector<std::string>& words);
int validate_verb(const std::vector<std::string>& words);
int report_verb(const std::vector<std::string>& words);
int capacity_verb(const std::vector<std::string>& words);
int sweep_verb(const std::vector<std::string>& words);
int diagnose_verb(const std::vector<std::string>& words);
int balance_verb(const std::vector<std::string>& words);
int trace_verb(const std::vector<std::string>& words);
int schema_verb(const std::vector<std::string>& words);
int list_verb(const std::vector<std::string>& words);

inline constexpr int kInfeasible = 3, kInterrupted = 130;

// Calls the verb that the first word names with the words after it. Throws InputError, naming the nearest, where `verbs`
// has none of that name; `kind` is what the message calls them.
int call_verb(std::span<const Verb> verbs, const std::string& kind, const std::vector<std::string>& words);

// --help was among the words and has been answered; call_verb() ends the verb with exit code 0.
struct HelpShown {};

// Parses `words`: `positional` names the arguments without a dash, in order. Unknown options are InputErrors that name
// the nearest known one. Prints `usage` and the options and throws HelpShown when --help is among the words.
po::variables_map parse_words(const std::vector<std::string>& words, const std::string& usage,
                              po::options_description options, const std::vector<std::string>& positional);

// The words of an option's list, separated by commas; none where the option is not given. Throws InputError for a list
// without a word; `what` says what they are.
std::vector<std::string> option_list(const po::variables_map& values, const std::string& option,
                                     const char* what = "words");

// Options of every verb that reads a scenario: --set (repeatable), --seed.
void add_scenario_options(po::options_description& options);
// The values of --set, if any.
std::vector<std::string> assignments_of(const po::variables_map& values);
// The scenario's warnings, on standard error.
void print_warnings(const Scenario& scenario);
// The scenario file, a shipped one where there is none of that name, with its overrides applied.
Config open_scenario(const po::variables_map& values);

// Options of every verb that writes a folder: --output, --overwrite, --threads.
void add_output_options(po::options_description& options);

// Number of threads that --threads asks for. Throws InputError.
std::size_t workers_of(const po::variables_map& values);

// Progress on standard error, as the terminal takes it; `quiet`: none. `options` say the rest.
ProgressBoard progress_board(bool quiet, ProgressOptions options);

// --strict-calibration, of the verbs that run.
void add_calibration_option(po::options_description& options);

}  // namespace epsim::app
