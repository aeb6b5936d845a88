#include "calibration/measure/provenance.h"

#include <epsim_revision.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <ctime>

namespace epsim::measure {

Provenance host_provenance(const std::string& machine) {
  Provenance out;
  out.machine = machine;
  out.git_revision = kGitRevision;
  out.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  char host[256] = "";
  out.host = gethostname(host, sizeof host - 1) == 0 ? host : "";
  return out;
}

std::string machine_name(const std::string& gpu) {
  std::string out;
  for (const char letter : gpu) {
    const auto c = static_cast<unsigned char>(letter);
    const bool plain = std::isalnum(c) != 0 || c == '.';
    if (plain || (!out.empty() && out.back() != '-')) {
      out += plain ? static_cast<char>(std::tolower(c)) : '-';
    }
  }
  while (out.ends_with("-")) {
    out.pop_back();
  }
  return out.starts_with("nvidia-") ? out.substr(7) : out;
}

std::string cuda_version_text(int encoded) { return fmt::format("{}.{}", encoded / 1000, encoded % 1000 / 10); }

std::string library_version_text(int encoded) {
  return fmt::format("{}.{}.{}", encoded / 10000, encoded % 10000 / 100, encoded % 100);
}

}  // namespace epsim::measure
