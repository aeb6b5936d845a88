#include "models/step/eager_work.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <string>

#include "models/catalogue/model_catalogue.h"
#include "tests/support/paths.h"

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
  const EagerWork work = eager_work(llama, kAlone, by(Transport::kNcclP2p));
  CHECK(work.launches == 32 * (8 + 4));
  CHECK(work.waits == 0);
  const double step = work.host_wait(Seconds{}, 23_us).count();
  CHECK(step > 8.23e-3);
  CHECK(step < 9.28e-3);
}

// docs/serving.md's pairs, in its columns: a step's ms by its layers, ours, kernels, and what one of them then takes.
TEST_CASE("the page of eager steps says what epsim computes for the public pairs") {
  std::ifstream file(test::source_dir() / "docs/serving.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  MoeSpec dense;
  const auto kernels = [&](int layers) {
    dense.layers = dense.first_dense_layers = layers;
    return eager_work(dense, kAlone, by(Transport::kNcclP2p)).launches;
  };
  struct Pair {
    const char* model;
    int layers;
    double step_ms;  // eager
  };
  for (const Pair& pair : {Pair{"Llama-3-8B, FlashInfer", 32, 8.23}, Pair{"Llama-3-8B, Triton", 32, 9.28},
                           Pair{"GPT-2, H200; SGLang and vLLM alike", 12, 1e3 / 205},  // tokens/s at batch 1
                           Pair{"Qwen2.5-Omni-7B, A800", 28, 22.5}}) {
    const double a_layer = pair.step_ms / pair.layers;
    const int launches = kernels(pair.layers) / pair.layers;
    const std::string row = fmt::format("| {} | {:.3f} | {:.3f} | {} | {:.0f} |", pair.model, a_layer, 0.023 * launches,
                                        launches, 1e3 * a_layer / launches);
    CAPTURE(row);
    CHECK(page.find(row) != std::string::npos);
  }
  // DeepSeek-Coder-V2-Lite on one GPU: a layer of experts without the two kernels of an exchange.
  MoeSpec lite = find_model("deepseek-v2-lite");
  const auto of = [&](int layers) {
    lite.layers = layers;
    return eager_work(lite, kAlone, by(Transport::kAllGatherReduceScatter)).launches;
  };
  const int layer = of(20) - of(19) - 2;
  CHECK(page.find(fmt::format("about 0.92 | {:.3f} | {} today", 0.023 * layer, layer)) != std::string::npos);
  // Qwen2.5-Omni's launches at the default fit into the GPU's 13 ms.
  CHECK(EagerWork{.launches = kernels(28), .waits = 0}.host_wait(13_ms, 23_us) == Seconds{});
}

TEST_CASE("kernels of DeepSeek-R1 in fp8, by transport") {
  MoeSpec r1 = find_model("deepseek-r1");
  r1.dtype = WeightType::kFp8;
  // 61 layers of attention (14 + 5), 3 of a dense FFN (4 + 2), 58 of router (3), shared experts (4 + 2), experts (6 + 2)
  // and the exchange.
  const int others = 61 * 19 + 3 * 6 + 58 * (3 + 6 + 8);
  CHECK(eager_work(r1, kAlone, by(Transport::kNcclP2p)).launches == others + 58 * 4);
  CHECK(eager_work(r1, kAlone, by(Transport::kAllGatherReduceScatter)).launches == others + 58 * 2);
  CHECK(eager_work(r1, kAlone, by(Transport::kDeepEpLowLatency)).launches == others + 58 * 2);
  CHECK(eager_work(r1, kAlone, by(Transport::kDeepEpLowLatency)).waits == 0);
  const EagerWork normal = eager_work(r1, kAlone, by(Transport::kDeepEpNormal));
  CHECK(normal.launches == others + 58 * 5);
  CHECK(normal.waits == 58);
  Parallelism split = kAlone;
  split.attention_tp = 8;
  CHECK(eager_work(r1, split, by(Transport::kDeepEpNormal)).launches == others + 58 * 5 + 61 * 2);
  CHECK((2 * normal).launches == 2 * (others + 58 * 5));
  CHECK((2 * normal).waits == 2 * 58);
  // An all-reduce over all GPUs does what the rank's own collectives do; broadcasts are two for each of 4 DP ranks.
  CHECK(eager_work(r1, split, by(Transport::kAllReduce)).launches == others + 58 * 5);
  CHECK(eager_work(r1, split, by(Transport::kBroadcastAllReduce)).launches == others + 58 * (4 + 2 * 4) + 61 * 2);
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
