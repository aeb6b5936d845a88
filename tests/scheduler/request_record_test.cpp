#include "sim/scheduler/request_record.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace epsim {
namespace {

TEST_CASE("packed ticks are the ticks that they were made of") {
  for (const Ticks t : {Ticks{}, Ticks{1}, Ticks{-1}, Ticks{std::int64_t{5} << 32}, Ticks::min(), Ticks::max()}) {
    CHECK(Ticks{PackedTicks{t}} == t);
  }
  PackedTicks at = Ticks{7};
  at += Ticks{std::int64_t{1} << 40};
  CHECK(at - PackedTicks{Ticks{7}} == Ticks{std::int64_t{1} << 40});
  CHECK(PackedTicks{Ticks{-1}} < PackedTicks{Ticks{}});
}

TEST_CASE("records are those of the rows, in their order, however many rows are taken apart at once") {
  for (const std::int32_t n : {0, 1, 3, (1 << 21) + 5}) {
    std::vector<Request> rows;
    for (std::int32_t i = 0; i < n; ++i) {
      rows.push_back({Ticks{i}, i + 1, i + 2});
    }
    const RequestRecords records = records_of(std::move(rows));
    REQUIRE(records.size() == static_cast<std::size_t>(n));
    bool right = true;
    for (std::int32_t i = 0; i < n; ++i) {
      const RequestRecord& r = records[static_cast<std::size_t>(i)];
      right = right && r.arrival == Ticks{i} && r.input_tokens == i + 1 && r.output_tokens == i + 2 && !r.routed() &&
              r.state == RequestState::kWaiting && r.finished == Ticks{};
    }
    CHECK(right);
  }
}

TEST_CASE("extras are zero for all until one request gets some") {
  RequestRecords records = records_of({{Ticks{}, 1, 1}, {Ticks{}, 1, 1}});
  CHECK(records.all_extras().empty());
  CHECK(records.extras(1).retries == 0);
  ++records.make_extras(1).retractions;
  ++records.make_extras(1).retractions;
  CHECK(records.all_extras().size() == 2);
  CHECK(records.extras(0).retractions == 0);
  CHECK(records.extras(1).retractions == 2);
}

}  // namespace
}  // namespace epsim
