#include "sim/app/manual.h"

#include <fmt/format.h>

#include <iostream>
#include <sstream>

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

}  // namespace

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

}  // namespace epsim::app
