// What a recorder is told must be the step that was priced.
#include "sim/domain/step_recorder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "models/step/step_model.h"
#include "tests/models/small_step.h"

using namespace epsim;

namespace {

class Keep final : public StepRecorder {
 public:
  void begin_step(const StepStart&) override {}
  void span(const StepSpan& span) override { spans.push_back(span); }
  void exchange(const StepExchange& e) override {
    const auto sum = [](std::span<const double> rows) {
      double total = 0;
      for (const double r : rows) {
        total += r;
      }
      return total;
    };
    sent += (sum(e.intra_out) + sum(e.inter_out)) * e.row_bytes;
    received += (sum(e.intra_in) + sum(e.inter_in)) * e.row_bytes;
  }
  void end_step(Ticks, const StepCost&) override {}

  std::vector<StepSpan> spans;
  double sent = 0, received = 0;
};

}  // namespace

TEST_CASE("a recorder sees every piece once: on no GPU do two overlap, the last ends with the step, bytes agree") {
  const test::SmallStep b;
  const Placement placement = b.placement();
  const test::FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  StepModel model = b.step_model(placement, loads);
  Keep keep;
  model.record_to(&keep);
  const std::vector<RankBatch> ranks{{.prefill_tokens = 5000, .prefill_pairs = 1e7, .sampled = 3},
                                     {.decode_tokens = 20, .decode_context = 9000, .sampled = 20}};
  const StepCost cost = model.price(0, ranks);
  Ticks end{};
  for (int g = 0; g < b.cluster.gpus(); ++g) {
    std::vector<StepSpan> here;
    for (const StepSpan& s : keep.spans) {
      if (s.first_gpu <= g && g < s.first_gpu + s.gpus) {
        here.push_back(s);
      }
    }
    std::sort(here.begin(), here.end(), [](const StepSpan& x, const StepSpan& y) { return x.start < y.start; });
    for (std::size_t i = 0; i < here.size(); ++i) {
      CHECK((i == 0 || here[i].start >= here[i - 1].start + here[i - 1].duration));
      end = std::max(end, here[i].start + here[i].duration);
    }
  }
  CHECK(end == to_ticks(cost.total));
  CHECK(keep.sent == doctest::Approx(keep.received).epsilon(1e-12));
  double bytes = 0;
  for (const LinkTotals& link : model.totals().links) {
    bytes += link.bytes.count();
  }
  CHECK(keep.sent + keep.received == doctest::Approx(bytes).epsilon(1e-9));
  // The slowest rank's attention in three layers is what the step's time by part says.
  Ticks attention{};
  for (const StepSpan& s : keep.spans) {
    attention += s.part == LayerPart::kAttention && s.first_gpu == 0 ? s.duration : Ticks{};
  }
  CHECK(to_seconds(attention).count() ==
        doctest::Approx(cost.by_part[static_cast<std::size_t>(LayerPart::kAttention)].count()).epsilon(1e-12));
}

TEST_CASE("recording changes no price") {
  const test::SmallStep b;
  const Placement placement = b.placement();
  const test::FixedLoads loads(2, {0.7F, 0.5F, 0.5F, 0.3F});
  StepModel silent = b.step_model(placement, loads), told = b.step_model(placement, loads);
  Keep keep;
  told.record_to(&keep);
  const std::vector<RankBatch> ranks(2, RankBatch{.prefill_tokens = 777, .prefill_pairs = 3e5, .sampled = 1});
  CHECK(silent.price(3, ranks).total.count() == told.price(3, ranks).total.count());
  CHECK_FALSE(keep.spans.empty());
}
