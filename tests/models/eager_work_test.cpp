#include "models/step/eager_work.h"

#include <doctest/doctest.h>

#include "models/catalogue/model_catalogue.h"

namespace epsim {
namespace {

DispatchOptions by(Transport transport) {
  DispatchOptions out;
  out.network.transport = transport;
  out.exchange_counts = transport == Transport::kNcclP2p;
  return out;
}

constexpr Parallelism kAlone{.gpus = 32, .attention_tp = 1};

}  // namespace

// sglang pull request 1401, without CUDA graphs, batch 1: 8.23 ms with FlashInfer and 9.28 ms with Triton.
TEST_CASE("launches of a dense model take what eager decode steps of Llama-3-8B took") {
  MoeSpec llama;
  llama.layers = llama.first_dense_layers = 32;
  const EagerWork work = eager_work(llama, kAlone, by(Transport::kNcclP2p), 1);
  CHECK(work.launches == 32 * (8 + 4));
  CHECK(work.waits == 0);
  const double step = work.host_wait(Seconds{}, 23_us).count();
  CHECK(step > 8.23e-3);
  CHECK(step < 9.28e-3);
}

TEST_CASE("kernels of DeepSeek-R1 in fp8, by transport") {
  MoeSpec r1 = find_model("deepseek-r1");
  r1.bytes_per_weight = 1;
  // 61 layers of attention (14 + 5), 3 of a dense FFN (4 + 2), 58 of router (3), shared experts (4 + 2), experts (6 + 2)
  // and the exchange.
  const int others = 61 * 19 + 3 * 6 + 58 * (3 + 6 + 8);
  CHECK(eager_work(r1, kAlone, by(Transport::kNcclP2p), 1).launches == others + 58 * 4);
  CHECK(eager_work(r1, kAlone, by(Transport::kAllGatherReduceScatter), 1).launches == others + 58 * 2);
  CHECK(eager_work(r1, kAlone, by(Transport::kDeepEpLowLatency), 1).launches == others + 58 * 2);
  CHECK(eager_work(r1, kAlone, by(Transport::kDeepEpLowLatency), 1).waits == 0);
  const EagerWork normal = eager_work(r1, kAlone, by(Transport::kDeepEpNormal), 1);
  CHECK(normal.launches == others + 58 * 5);
  CHECK(normal.waits == 58);
  Parallelism split = kAlone;
  split.attention_tp = 8;
  CHECK(eager_work(r1, split, by(Transport::kDeepEpNormal), 2).launches == 2 * (others + 58 * 5 + 61 * 2));
  CHECK(eager_work(r1, split, by(Transport::kDeepEpNormal), 2).waits == 2 * 58);
  // An all-reduce over all GPUs does what the rank's own collectives do; broadcasts are two for each of 4 DP ranks.
  CHECK(eager_work(r1, split, by(Transport::kAllReduce), 1).launches == others + 58 * 5);
  CHECK(eager_work(r1, split, by(Transport::kBroadcastAllReduce), 1).launches == others + 58 * (4 + 2 * 4) + 61 * 2);
}

TEST_CASE("a step takes its launches or its kernels, whichever is longer") {
  constexpr EagerWork kAhead{.launches = 1000, .waits = 0}, kWaiting{.launches = 1000, .waits = 50};
  CHECK(kAhead.host_wait(4_ms, 10_us).count() == doctest::Approx(6e-3));
  CHECK(kAhead.host_wait(11_ms, 10_us).count() == 0);
  CHECK(kWaiting.host_wait(4_ms, 10_us).count() == doctest::Approx(6e-3));
  CHECK(kWaiting.host_wait(9800_us, 10_us).count() == doctest::Approx(0.5e-3));  // 50 launches > 0.2 ms
  CHECK(kWaiting.host_wait(11_ms, 10_us).count() == doctest::Approx(0.5e-3));
  CHECK(kWaiting.host_wait(11_ms, Seconds{}).count() == 0);
}

}  // namespace epsim
