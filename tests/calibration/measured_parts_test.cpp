// From a measured device to the price of each part of a layer: what the sweep measures is what a run pays. The device
// has 204.8 TF/s, 1 TB/s and 2 us a launch (fake_device.h), so that every price can be worked out by hand.
#include <doctest/doctest.h>

#include "calibration/fit.h"
#include "calibration/profile_writer.h"
#include "models/catalogue/model_catalogue.h"
#include "models/compute/roofline.h"
#include "tests/calibration/fake_sweep.h"
#include "tests/models/profiles.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

constexpr double kLaunch = 2e-6, kBytes = 1e12;
constexpr double kNear = 0.03;  // of the fit, where the device changes from bound by memory to bound by products

const std::string kOps =
    "grouped_gemm,dense_gemm,gate,permute,unpermute,activation,norm,device_copy,host_to_device,device_to_host";

FittedProfile fit_fake() {
  const TempDir dir;
  REQUIRE(measure_fake({"--full", "--only", kOps, "--models", "olmoe-1b-7b"}, dir / "points.h5") == 0);
  const MachineRates rates{204.8e12, 0, kBytes};
  return fit_profile(read_points(dir / "points.h5"), rates,
                     [](const std::string& note) { CHECK_MESSAGE(note.starts_with("attention: not measured"), note); });
}

const FittedProfile& fake() {
  static const FittedProfile profile = read_fitted_profile(Config::from_text(profile_yaml(fit_fake()), "fit.yaml"));
  return profile;
}

GpuSpec fake_gpu() {
  return {"fake", FlopsPerSecond(204.8e12), FlopsPerSecond(0), Bytes(80e9), BytesPerSecond(kBytes), ""};
}

// Priced from the fit without the operators of `left_out`, where the made-up shares of tests/models/profiles.h stand
// in.
ComputeModel priced(const std::vector<std::string>& left_out = {}) {
  FittedProfile profile = fake();
  std::erase_if(profile.ops, [&](const FittedOp& op) {
    return std::find(left_out.begin(), left_out.end(), op.op) != left_out.end();
  });
  ComputeProfile compute = plain_compute();
  compute.fitted = std::make_shared<const FittedProfile>(profile);
  return {find_model("olmoe-1b-7b"), fake_gpu(), {.gpus = 8, .attention_tp = 1}, compute};
}

void check_price(const Price& price, double seconds) {
  CHECK(price.time.count() / seconds == doctest::Approx(1).epsilon(kNear));
  CHECK(price.origin == Origin::kInterpolated);
}

TEST_CASE("every measured operator has a fit that says how wrong it is") {
  const std::string text = profile_text(fake()), csv = errors_csv(fake());
  for (const FittedOp& op : fake().ops) {
    CAPTURE(op.op);
    CHECK(op.held_out.points > 0);
    CHECK(op.held_out.median < 0.05);
    CHECK(op.held_out.p95 < 0.2);
    CHECK(text.find("\n  " + op.op) != std::string::npos);
    CHECK(csv.find("\n" + op.op + ",") != std::string::npos);
  }
  CHECK(fake().ops.size() == 10);
}

TEST_CASE("the gate: logits, softmax and choice in two launches") {
  // 64 tokens, 2048 wide, 64 experts, top 8: rows and weights of 2 x 64 x 2048 x 2 B, and 64 x (4 x 64 + 8 x 8) B out.
  const double bytes = 2 * 64 * 2048 * 2 + 64 * (4 * 64 + 8 * 8);
  check_price(priced().gate(64), 2 * kLaunch + bytes / kBytes);
  CHECK(priced({"gate"}).gate(64).origin != Origin::kInterpolated);  // shares of a data sheet stand in
}

TEST_CASE("two norms, each of which adds the residual, and one kernel that turns and writes keys") {
  const RankBatch batch{.decode_tokens = 256, .decode_context = 256 * 512.0};
  // Two rows of 2048 x 2 B read for every token and two written; queries of 2048, keys and values of 2048 each, likewise.
  const double norm = 256 * 2 * 2 * 2048 * 2, turned = 256 * 2 * 3 * 2048 * 2;
  const double kernels = 3 * kLaunch + (2 * norm + turned) / kBytes;
  const double without = priced({"norm", "device_copy"}).attention(batch).time.count();
  // Without: the same bytes at plain_compute()'s 80 %.
  const double stand_in = (2 * norm + turned) / (0.8 * kBytes);
  CHECK((priced().attention(batch).time.count() - without + stand_in) / kernels == doctest::Approx(1).epsilon(kNear));
}

TEST_CASE("rows are put in the order of the experts and back: two kernels that move them twice") {
  // 512 rows of 2048 x 2 B, read and written.
  const double one = kLaunch + 2 * 512 * 2048 * 2 / kBytes;
  const double without = priced({"permute", "unpermute"}).experts(512, 8).time.count();
  CHECK((priced().experts(512, 8).time.count() - without) / (2 * one) == doctest::Approx(1).epsilon(kNear));
}

TEST_CASE("logits are written once, the activation reads two columns and writes one") {
  // 64 sequences, 50304 logits of 4 B, through a kernel that reads and writes: as much as a copy of half of it.
  const double logits = kLaunch + 64 * 50304 * 4 / kBytes;
  const double stand_in = 64 * 50304 * 4 / (0.8 * kBytes);
  const double without = priced({"device_copy"}).head(64).time.count();
  CHECK((priced().head(64).time.count() - without + stand_in) / logits == doctest::Approx(1).epsilon(kNear));
  const FittedOp* activation = fake().find("activation");
  REQUIRE(activation != nullptr);
  CHECK(activation->price(std::array{4096.0, 1024.0}).time.count() / (kLaunch + 3 * 4096 * 1024 * 2 / kBytes) ==
        doctest::Approx(1).epsilon(kNear));
}

}  // namespace
}  // namespace epsim::test
