// What the tests of request traces share.
#pragma once

#include <string>
#include <vector>

#include "sim/core/config.h"
#include "traces/requests/read_requests.h"

namespace epsim::test {

// The requests of a section written as YAML; `path`, when given, becomes its key of that name.
inline RequestTable table_of(const std::string& yaml, const std::string& path = "", Seed seed = Seed{1}) {
  Config config = Config::from_text(yaml, "requests.yaml");
  if (!path.empty()) {
    config.set("path=" + path);
  }
  ConfigReader in = config.root();
  RequestTable table = read_request_table(in, seed);
  in.finish();
  table.trace.validate();
  return table;
}

inline double seconds_of(Ticks time) { return to_seconds(time).count(); }

// Prefix blocks of request i.
inline std::vector<std::int64_t> blocks_of(const RequestTable& table, std::size_t i) {
  return {table.prefix_blocks.begin() + table.prefix_start[i], table.prefix_blocks.begin() + table.prefix_start[i + 1]};
}

}  // namespace epsim::test
