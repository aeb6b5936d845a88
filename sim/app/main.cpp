// The program `epsim`: finds the verb, prints errors, picks the exit code.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "sim/app/command_line.h"
#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/text.h"

namespace epsim::app {
namespace {

// What a verb prints for --help.
std::string help_of(const Verb& verb) {
  std::ostringstream text;
  std::streambuf* const before = std::cout.rdbuf(text.rdbuf());
  try {
    call_verb(std::span(&verb, 1), "verb", {verb.name, "--help"});
  } catch (...) {
    std::cout.rdbuf(before);
    throw;
  }
  std::cout.rdbuf(before);
  return text.str();
}

// Text that is shown as it stands: backslashes, and lines that begin like a request, are escaped.
std::string verbatim(const std::string& text) {
  std::string out = ".nf\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('.') || line.starts_with('\'')) {
      out += "\\&";
    }
    out += replaced(replaced(line, "\\", "\\e"), "-", "\\-") + "\n";
  }
  return out + ".fi\n";
}

// A page in troff's man macros: `introduction` and the help of every verb.
std::string manual_page(std::span<const Verb> verbs, const std::string& introduction) {
  std::string out = fmt::format(
      ".TH EPSIM 1 \"\" \"epsim {}\" \"User Commands\"\n"
      ".SH NAME\nepsim \\- cluster simulator for Mixture\\-of\\-Experts expert parallelism in LLM serving\n"
      ".SH SYNOPSIS\n.B epsim\n.I verb\n[arguments]\n.SH DESCRIPTION\n{}",
      EPSIM_VERSION, verbatim(introduction));
  for (const Verb& verb : verbs) {
    out += fmt::format(".SH \"epsim {}\"\n{}", verb.name, verbatim(help_of(verb)));
  }
  return out;
}

constexpr Verb kVerbs[] = {
    {"compare", "run several policies on identical inputs and rank them", compare_verb},
    {"run", "run one policy", run_verb},
    {"goodput", "find the request rate that each policy sustains", goodput_verb},
    {"capacity", "what to rent for a demand and an SLO, how to run it, what it costs", capacity_verb},
    {"sweep", "run every combination of given values, resumable", sweep_verb},
    {"diagnose", "should EPLB be on? five lines from a file of expert counts", diagnose_verb},
    {"report", "make one HTML file of what another verb wrote", report_verb},
    {"reproduce", "re-run a paper's evaluation and check its claims", reproduce_verb},
    {"balance", "plan on one window of expert loads, score on another; no serving run", balance_verb},
    {"plan", "run a placement policy alone: loads in, slots out", plan_verb},
    {"trace", "inspect, import, slice, fit, generate and compare routing traces", trace_verb},
    {"calibrate", "import measurements, fit price profiles, show their errors", calibrate_verb},
    {"init", "write a scenario with the engine's defaults on that hardware", init_verb},
    {"validate", "check a scenario without running it", validate_verb},
    {"schema", "print the JSON Schema of scenario files, for editors", schema_verb},
    {"list", "models, hardware, engines, policies, readers and scenario keys", list_verb},
};

// Verbs that have another name now. The old one works for a release.
struct RenamedVerb {
  std::string_view before, now, until;
};
constexpr RenamedVerb kRenamed[] = {{"screen", "balance", "0.4"}};

void print_help(std::ostream& out) {
  out << "epsim: discrete-event cluster simulator for Mixture-of-Experts expert parallelism in LLM serving\n\n"
         "Should replication be on, with how many copies, on how many nodes, and what does it cost?\n\n"
         "  epsim <verb> [arguments]\n\n";
  for (const Verb& verb : kVerbs) {
    out << fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  }
  out << "\nStart with the shipped scenario, then change one thing at a time:\n\n"
         "  epsim compare experiments/quickstart/deepseek-r1-p4de.yaml --policies base,eplb\n"
         "  epsim compare experiments/quickstart/deepseek-r1-p4de.yaml --policies base,eplb --set requests.rate=6/s\n"
         "  epsim list policies\n\n"
         "`epsim <verb> --help` explains a verb; `man epsim` has all verbs. If the working folder lacks a\n"
         "file, epsim looks among its installed scenarios. Exit codes: 0 done, 1 the run failed, 2 bad input\n"
         "(or more than fits into memory), 3 nothing holds the SLO (capacity, goodput), 130 interrupted;\n"
         "of diagnose: 10 on, 11 off, 12 unsure.\n";
}

int dispatch(std::vector<std::string> words) {
  if (words.size() == 2 && words[0] == "help" && words[1] == "--man") {
    std::ostringstream introduction;
    print_help(introduction);
    std::cout << manual_page(kVerbs, introduction.str());
    return 0;
  }
  if (words.size() > 1 && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_help(std::cout);
    return words.empty() ? 2 : 0;
  }
  if (words[0] == "--version") {
    std::cout << "epsim " << EPSIM_VERSION << "\n";
    return 0;
  }
  for (const RenamedVerb& verb : kRenamed) {
    if (words[0] == verb.before) {
      std::cerr << fmt::format("epsim: `{}` is called `{}` now; the old name will be removed in version {}.\n",
                               verb.before, verb.now, verb.until);
      words[0] = verb.now;
    }
  }
  return call_verb(kVerbs, "verb", words);
}

constexpr const char* kOutOfMemory = "epsim: the run failed: out of memory\n";

// nlohmann's documents need memory to be destroyed: without it their destructors end the program.
[[noreturn]] void end_by_exception() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
  } catch (const std::bad_alloc&) {
    std::fputs(kOutOfMemory, stderr);
    std::_Exit(1);
  } catch (...) {
  }
  std::abort();
}

}  // namespace
}  // namespace epsim::app

int main(int argc, char** argv) {
  std::set_terminate(epsim::app::end_by_exception);
  try {
    const int code = epsim::app::dispatch({argv + 1, argv + argc});
    std::cout.flush();
    if (!std::cout) {
      throw epsim::RunFailed("standard output cannot be written; is the disk full?");
    }
    return code;
  } catch (const epsim::InputError& e) {
    std::cerr << "epsim: " << e.what() << "\n";
    return 2;
  } catch (const epsim::RunFailed& e) {
    std::cerr << "epsim: the run failed: " << e.what() << "\n";
    return 1;
  } catch (const epsim::InvariantBroken& e) {
    std::cerr << "epsim: a rule of the simulation itself was broken, which is a bug in epsim: " << e.what() << "\n";
    return 1;
  } catch (const std::bad_alloc&) {
    std::cerr << epsim::app::kOutOfMemory;
    return 1;
  } catch (const std::exception& e) {
    std::cerr << "epsim: the run failed: " << e.what() << "\n";
    return 1;
  }
}
