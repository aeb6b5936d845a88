#include "traces/requests/read_requests.h"

#include <string>
#include <vector>

#include "traces/requests/sources.h"

namespace epsim {

namespace {
constexpr RequestSource kSources[] = {
    {"poisson", "independent arrivals at a mean rate, fixed lengths", make_poisson},
    {"constant", "evenly spaced arrivals, fixed lengths", make_constant},
    {"azure_csv", "Azure LLM inference traces (TIMESTAMP,ContextTokens,GeneratedTokens)", make_azure_csv}};
}

std::span<const RequestSource> request_sources() { return kSources; }

RequestTrace read_requests(ConfigReader& in, Seed seed) {
  std::vector<std::string> names;
  for (const RequestSource& source : kSources) {
    names.emplace_back(source.name);
  }
  const std::string kind = in.choice("kind", names);
  for (const RequestSource& source : kSources) {
    if (source.name == kind) {
      return source.read(in, seed);
    }
  }
  in.fail("kind", unknown_name("kind of requests", kind, names));
}

}  // namespace epsim
