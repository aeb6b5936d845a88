#include "sim/scheduler/request_record.h"

#include <algorithm>

namespace epsim {

RequestRecords records_of(std::vector<Request> requests) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 20;  // rows that are not worth another copy of the rest
  RequestRecords out;
  out.reserve(requests.size());
  while (!requests.empty()) {
    const std::size_t part = std::max(requests.size() / 2, std::min(kAtOnce, requests.size()));
    const auto end = requests.begin() + static_cast<std::ptrdiff_t>(part);
    std::for_each(requests.begin(), end, [&out](const Request& r) {
      RequestRecord& record = out.emplace_back();
      record.input_tokens = r.input_tokens;
      record.output_tokens = r.output_tokens;
      record.arrival = r.arrival;
    });
    requests = std::vector<Request>(end, requests.end());
  }
  return out;
}

}  // namespace epsim
