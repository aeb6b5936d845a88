#include "models/catalogue/hardware_profile.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "models/catalogue/model_catalogue.h"
#include "models/profile/model_ops.h"
#include "sim/core/error.h"
#include "tests/support/paths.h"

using namespace epsim;

namespace {

// Wire time of an all-to-all inside a node: each GPU sends (n - 1) / n of its buffer.
Seconds inside(double mib, int gpus, double gbps) { return Seconds(mib * kMiB * (gpus - 1) / gpus / (gbps * 1e9)); }

// An invented link: 10 us of latency, 1 GB/s; 2 GPUs reach it exactly, 8 GPUs half of it.
LinkProfile invented() {
  LinkProfile link;
  link.name = "invented";
  for (const auto& [gpus, factor] : std::vector<std::pair<int, double>>{{2, 1.0}, {8, 2.0}}) {
    CollectiveCurve curve;
    curve.gpus = gpus;
    curve.wire_share = 1;
    curve.link_rate = BytesPerSecond(1e9);
    for (const double wire : {0.0, 1e-3, 10e-3}) {
      curve.points.push_back({Bytes(wire * 1e9), Seconds(10e-6 + factor * wire), Seconds(wire)});
    }
    link.curves.push_back(curve);
  }
  return link;
}

struct LinkFile {
  test::TempDir folder;
  LinkProfile read(const std::string& text) const {
    std::ofstream(folder / "link.yaml") << text;
    return link_profile((folder / "link.yaml").string(), "");
  }
  void check_refused(const std::string& text, int line, const std::string& key, const std::string& word) const {
    CAPTURE(text);
    try {
      read(text);
      FAIL("accepted, although it should complain about " << key);
    } catch (const InputError& e) {
      CHECK(e.place.file == (folder / "link.yaml").string());
      CHECK(e.place.line == line);
      CHECK(e.place.key == key);
      CHECK_MESSAGE(e.problem.find(word) != std::string::npos, e.problem);
    }
  }
};

const std::string kHead =
    "tier: intra\n"
    "link_rate: 100GB/s\n"
    "base_latency: {value: 5, origin: measured, source: a test}\n"
    "source: a test\n";

}  // namespace

// Of the data sheet's rate, the latency included.
double share_of(const LinkProfile& link, CollectiveKind kind, int gpus, Seconds wire) {
  return wire / link.time(kind, gpus, wire).time;
}

TEST_CASE("an efficiency curve: power law between points, constant time below, constant share above") {
  EfficiencyCurve curve;
  curve.points = {{10, 0.02}, {1000, 0.5}};
  CHECK(curve.at(10).fraction == 0.02);
  CHECK(curve.at(10).origin == Origin::kMeasured);
  CHECK(curve.at(1000).fraction == 0.5);
  CHECK(curve.at(100).fraction == doctest::Approx(std::sqrt(0.02 * 0.5)));  // halfway in log(rows)
  CHECK(curve.at(100).origin == Origin::kInterpolated);
  CHECK(curve.at(5).fraction == doctest::Approx(0.01));
  CHECK(curve.at(5).origin == Origin::kExtrapolated);
  CHECK(curve.at(1e6).fraction == 0.5);
  CHECK(curve.at(1e6).origin == Origin::kExtrapolated);
  curve.origin = Origin::kExtrapolated;
  CHECK(curve.at(10).origin == Origin::kExtrapolated);
  curve.points = {{10, 0.02}};
  CHECK(curve.at(10).fraction == 0.02);
  CHECK(curve.at(20).fraction == 0.02);
}

TEST_CASE("a collective: linear in wire time, logarithmic in GPUs") {
  const LinkProfile link = invented();
  const auto us = [&](int gpus, double wire) {
    return to_us(link.time(CollectiveKind::kAllToAll, gpus, Seconds(wire)).time);
  };
  const auto origin = [&](int gpus, double wire) {
    return link.time(CollectiveKind::kAllToAll, gpus, Seconds(wire)).origin;
  };
  CHECK(us(2, 0) == doctest::Approx(10));
  CHECK(us(2, 0.5e-3) == doctest::Approx(510));
  CHECK(us(2, 4e-3) == doctest::Approx(4010));
  CHECK(us(8, 4e-3) == doctest::Approx(8010));
  CHECK(us(4, 4e-3) == doctest::Approx(6010));  // halfway from 2 to 8
  CHECK(us(2, 20e-3) == doctest::Approx(2 * 10010));
  CHECK(us(16, 4e-3) == doctest::Approx(8010));
  CHECK(origin(2, 1e-3) == Origin::kMeasured);
  CHECK(origin(2, 4e-3) == Origin::kInterpolated);
  CHECK(origin(4, 1e-3) == Origin::kInterpolated);
  CHECK(origin(2, 20e-3) == Origin::kExtrapolated);
  CHECK(origin(16, 1e-3) == Origin::kExtrapolated);
  // A kind that was not measured costs what the all-to-all costs, and says so.
  CHECK(link.time(CollectiveKind::kAllGather, 2, Seconds(1e-3)).origin == Origin::kExtrapolated);
}

TEST_CASE("NVLink all-to-all of 8 GPUs, as measured with NCCL") {
  struct Row {
    const char* link;
    double gbps, us_8, us_128, us_512;
  };
  for (const Row& r : {Row{"nvlink3-a100", 300, 67.84, 640.5, 2313.5}, Row{"nvlink4-h100", 450, 41.27, 402.4, 1480.2},
                       Row{"nvlink4-h200", 450, 40.28, 391.7, 1445.9}}) {
    CAPTURE(r.link);
    const LinkProfile link = link_profile(r.link, "");
    const auto price = [&](double mib) { return link.time(CollectiveKind::kAllToAll, 8, inside(mib, 8, r.gbps)); };
    CHECK(to_us(price(8).time) == doctest::Approx(r.us_8));
    CHECK(to_us(price(128).time) == doctest::Approx(r.us_128));
    CHECK(to_us(price(512).time) == doctest::Approx(r.us_512));
    CHECK(price(128).origin == Origin::kMeasured);
    CHECK(price(64).origin == Origin::kInterpolated);  // held out of the profile
    // 512 MiB x 7/8 over the port's rate against the time: 67 to 72 % of the data sheet.
    const double share = 512 * kMiB * 7 / 8 / (r.gbps * 1e9) / (r.us_512 * 1e-6);
    CHECK(share_of(link, CollectiveKind::kAllToAll, 8, inside(512, 8, r.gbps)) == doctest::Approx(share));
    CHECK(share > 0.67);
    CHECK(share < 0.73);
    CHECK(to_us(price(0).time) < 16);
  }
}

TEST_CASE("EFA on p5: share of the NICs' rate at 2 GiB and at 32 MiB") {
  // algbw x (n - 8) / n of 50 GB/s per GPU.
  struct Row {
    int gpus;
    double algbw_2gib, share_2gib, share_32mib;
  };
  const LinkProfile link = link_profile("efa-p5", "");
  for (const Row& r : {Row{16, 84.53, 0.85, 0.48}, Row{32, 55.82, 0.84, 0.53}, Row{64, 50.41, 0.88, 0.51},
                       Row{128, 44.58, 0.84, 0.47}, Row{256, 40.94, 0.79, 0.38}}) {
    CAPTURE(r.gpus);
    const auto share = [&](double mib) {
      const double wire = mib * kMiB * (r.gpus - 8) / r.gpus / 50e9;
      CHECK(link.time(CollectiveKind::kAllToAll, r.gpus, Seconds(wire)).origin == Origin::kMeasured);
      return share_of(link, CollectiveKind::kAllToAll, r.gpus, Seconds(wire));
    };
    CHECK(share(2048) == doctest::Approx(r.algbw_2gib * (r.gpus - 8) / r.gpus / 50));
    CHECK(share(2048) == doctest::Approx(r.share_2gib).epsilon(0.006));
    CHECK(share(32) == doctest::Approx(r.share_32mib).epsilon(0.006));
  }
  // 91.2 us and a message of 2.45 us to each of the 56 GPUs of other nodes.
  CHECK(to_us(link.time(CollectiveKind::kAllToAll, 64, Seconds(0)).time) == doctest::Approx(91.2 + 56 * 2.45));
  CHECK(link.time(CollectiveKind::kAllToAll, 64, Seconds(1e-5)).origin == Origin::kExtrapolated);
  CHECK(link.time(CollectiveKind::kAllToAll, 48, Seconds(5e-3)).origin == Origin::kInterpolated);
}

// Every further peer adds a message that the proxy thread posts: an exchange of next to nothing grows with the GPUs.
TEST_CASE("base latency between nodes: a message to every GPU of another node") {
  const LinkProfile p5 = link_profile("efa-p5", ""), ndr = link_profile("infiniband-ndr", "");
  // nccl-tests' all-to-all over 16 GPUs of two nodes: 110.8 us, the mean up to 64 KiB (bottlerocket-kernel-kit pull
  // requests 313 and 424).
  CHECK(to_us(p5.base(16).time) == doctest::Approx(110.8));
  CHECK(to_us(p5.base(96).time) == doctest::Approx(91.2 + 88 * 2.45));
  CHECK(p5.base(96).origin == Origin::kExtrapolated);
  // What a message costs, from the 32 MiB of nccl_alltoall.csv (algbw 29.13, 24.83, 19.79 GB/s over 64, 128, 256 GPUs):
  // each peer gets one message, and what further peers add beside wire time at 85 % of 50 GB/s is theirs.
  const auto us = [](int gpus, double gbps) {
    return 32 * kMiB / gbps / 1e3 - 32 * kMiB * (gpus - 8) / gpus / 50e3 / 0.85;
  };
  CHECK((us(128, 24.83) - us(64, 29.13)) / 64 == doctest::Approx(2.35).epsilon(0.01));
  CHECK((us(256, 19.79) - us(128, 24.83)) / 128 == doctest::Approx(2.50).epsilon(0.01));
  CHECK((us(256, 19.79) - us(64, 29.13)) / 192 == doctest::Approx(to_us(p5.per_message)).epsilon(0.01));
  // pplx-kernels README, 1 token a GPU on InfiniBand, with its standard deviations but for the first, which is 11 % off.
  CHECK(to_us(ndr.base(16).time) == doctest::Approx(109.7).epsilon(0.11));
  CHECK(std::fabs(to_us(ndr.base(32).time) - 95.7) < 14.3);
  CHECK(std::fabs(to_us(ndr.base(64).time) - 101.6) < 15.7);
  CHECK(std::fabs(to_us(ndr.base(128).time) - 132.0) < 25.9);
  // A borrowed curve starts from the borrower's own latency, not the lender's.
  CHECK(ndr.time(CollectiveKind::kAllToAll, 64, Seconds(0)).time == ndr.base(64).time);
  // Inside a node there are no such messages.
  CHECK(link_profile("nvlink4-h100", "").base(8).time == link_profile("nvlink4-h100", "").base(2).time);
}

// nccl_all_gather.csv of the same source: a ring through all GPUs.
TEST_CASE("an all-gather between p5 nodes takes 10 us a GPU, whatever the bytes; a reduce-scatter as much") {
  const LinkProfile p5 = link_profile("efa-p5", "");
  const auto price = [&](CollectiveKind kind, int gpus) {
    return p5.time(kind, gpus, Seconds(32 * kMiB * (gpus - 8) / gpus / 8 / 50e9));  // an eighth of a node's part
  };
  for (const auto& [ranks, algbw] : {std::pair{16, 140.06}, std::pair{64, 47.03}, std::pair{128, 25.10}}) {
    const int gpus = ranks;
    CAPTURE(gpus);
    CHECK(to_us(price(CollectiveKind::kAllGather, gpus).time) == doctest::Approx(32 * kMiB / algbw / 1e3));
    CHECK(price(CollectiveKind::kAllGather, gpus).origin == Origin::kMeasured);
    CHECK(price(CollectiveKind::kReduceScatter, gpus).time == price(CollectiveKind::kAllGather, gpus).time);
    CHECK(price(CollectiveKind::kReduceScatter, gpus).origin == Origin::kExtrapolated);
  }
  const auto more = [&](int few, int many) {
    return to_us(price(CollectiveKind::kAllGather, many).time - price(CollectiveKind::kAllGather, few).time) /
           (many - few);
  };
  CHECK(more(16, 64) == doctest::Approx(9.9).epsilon(0.01));
  CHECK(more(64, 128) == doctest::Approx(9.7).epsilon(0.01));
  CHECK(more(128, 256) == doctest::Approx(10.6).epsilon(0.01));
}

TEST_CASE("EFA on p4de: its all-reduce is measured, its all-to-all borrowed from p5 at equal wire time") {
  const LinkProfile p4de = link_profile("efa-p4de", ""), p5 = link_profile("efa-p5", "");
  // 2 GiB once through 50 GB/s of NICs: 42.9 ms of the 51.4 ms measured, 84 %.
  const Seconds wire(2048 * kMiB / 50e9);
  const Price reduce = p4de.time(CollectiveKind::kAllReduce, 16, wire);
  CHECK(to_us(reduce.time) == doctest::Approx(51406));
  CHECK(reduce.origin == Origin::kMeasured);
  CHECK(share_of(p4de, CollectiveKind::kAllReduce, 16, wire) == doctest::Approx(0.84).epsilon(0.01));
  const Price exchange = p4de.time(CollectiveKind::kAllToAll, 64, Seconds(8e-3));
  CHECK(exchange.time == p5.time(CollectiveKind::kAllToAll, 64, Seconds(8e-3)).time);
  CHECK(exchange.origin == Origin::kExtrapolated);
  const std::vector<std::string> why = carried_over({}, {p5, p4de}, {}, true);
  REQUIRE(why.size() == 1);
  CHECK(why[0].find("links between nodes (efa-p4de): all_to_all, all_gather from efa-p5, since no all-to-all and") ==
        0);
  CHECK(carried_over({}, {p5, p4de}, {}, false).empty());
}

TEST_CASE("times grow with the bytes in every link profile") {
  for (const char* name : {"nvlink3-a100", "nvlink4-h100", "nvlink4-h200", "nvlink5-b200", "nvlink5-b300",
                           "nvlink5-gb200", "pcie4-l40s", "efa-p5", "efa-p4de", "infiniband-ndr"}) {
    CAPTURE(name);
    const LinkProfile link = link_profile(name, "");
    CHECK(!link.base_latency.source.empty());
    for (const CollectiveCurve& curve : link.curves) {
      CHECK(!curve.source.empty());
      Seconds before(0);
      for (double wire = 1e-7; wire < 1; wire *= 1.7) {
        const Seconds time = link.time(curve.kind, curve.gpus, Seconds(wire)).time;
        // vLLM's one-shot kernel for up to 0.5 MiB takes longer on 8 B200 than its two-shot kernel for 1 and 2 MiB.
        const bool two_kernels = link.name == "nvlink5-b200" && curve.kind == CollectiveKind::kCustomAllReduce;
        CHECK((time >= before || (two_kernels && wire > 1e-6 && wire < 5e-6)));
        // Nothing beats the data sheet, but for an all-reduce that the switch itself adds up.
        CHECK((time.count() >= wire || is_all_reduce(curve.kind)));
        before = time;
      }
    }
  }
}

TEST_CASE("dense and grouped GEMM on the A100") {
  const ComputeProfile a100 = compute_profile("a100", "");
  CHECK(a100.dense_gemm.at(4096).fraction == doctest::Approx(249.7 / 312));
  CHECK(a100.dense_gemm.at(64).fraction == doctest::Approx(73.7 / 312));
  CHECK(a100.dense_gemm.at(64).origin == Origin::kMeasured);
  CHECK(a100.dense_gemm.at(100).origin == Origin::kInterpolated);
  // 16384 tokens x top-8 over 256 experts: 512 rows each; 6 x 7168 x 2048 flops a row in 108.375 ms.
  const double share = 16384.0 * 8 * 6 * 7168 * 2048 / 108.375e-3 / 312e12;
  const Efficiency measured = a100.grouped(7168, 2048, 512);
  CHECK(measured.fraction == doctest::Approx(share));
  CHECK(measured.fraction == doctest::Approx(0.341).epsilon(0.002));
  CHECK(measured.origin == Origin::kMeasured);
  // Another shape takes the nearest one's share: 5120 x 1536 is nearer to 4096 x 1536 than to 7168 x 2048.
  const Efficiency carried = a100.grouped(5120, 1536, 1024);
  CHECK(carried.fraction == a100.grouped(4096, 1536, 1024).fraction);
  CHECK(carried.origin == Origin::kExtrapolated);
}

TEST_CASE("shares that the profiles promise lie where they were measured") {
  for (const char* name : {"a100", "h100", "h200", "b200"}) {
    CAPTURE(name);
    const ComputeProfile p = compute_profile(name, "");
    for (const Figure* figure : {&p.weight_read, &p.memory_bound, &p.attention_prefill, &p.attention_decode}) {
      CHECK(figure->value > 0);
      CHECK(figure->value < 1);
      CHECK(!figure->source.empty());
      CHECK(figure->origin == Origin::kInterpolated);
    }
    CHECK(p.kernel_constant.value == doctest::Approx(3e-6));
    const ComputeProfile borrowed = compute_profile(name, "for a test");
    CHECK(borrowed.weight_read.origin == Origin::kExtrapolated);
    CHECK(borrowed.grouped(7168, 2048, 512).origin == Origin::kExtrapolated);
  }
}

TEST_CASE("an unknown profile lists all") {
  CHECK_THROWS_WITH_AS(link_profile("nvlink3", ""), doctest::Contains("nvlink3-a100"), InputError);
  CHECK_THROWS_WITH_AS(compute_profile("a10", ""), doctest::Contains("nearest first: a100"), InputError);
}

TEST_CASE("a link profile of the user, and what is wrong with it") {
  const LinkFile file;
  const LinkProfile link = file.read(kHead + "curves:\n  - {kind: all_to_all, gpus: 4, mib: [1, 8], us: [20, 100]}\n");
  CHECK(to_us(link.time(CollectiveKind::kAllToAll, 4, inside(8, 4, 100)).time) == doctest::Approx(100));
  CHECK(to_us(link.time(CollectiveKind::kAllToAll, 4, Seconds(0)).time) == doctest::Approx(5));
  const std::string curves = kHead + "curves:\n";
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, mib: [1, 8], us: [20]}\n", 6, "curves[0].us",
                     "1 values");
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, mib: [8, 1], us: [20, 30]}\n", 6, "curves[0].mib",
                     "grow");
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, mib: [1, 8], us: [20, 10]}\n", 6, "curves[0].kind",
                     "less time");
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, us: [20]}\n", 6, "curves[0].kind", "no sizes");
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, mib: [1]}\n", 6, "curves[0].kind", "either");
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 1, mib: [1], us: [20]}\n", 6, "curves[0].gpus",
                     "at least 2");
  file.check_refused(curves + "  - {kind: all_to_one, gpus: 4, mib: [1], us: [20]}\n", 6, "curves[0].kind",
                     "all_to_all");
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, mib: [1], us: [.nan]}\n", 6, "curves[0].us", "finite");
  file.check_refused(curves + "  - {kind: all_reduce, gpus: 4, mib: [1], us: [20]}\n", 6, "curves", "at least one");
  // Sizes in tokens: rows of 1000 B, 2 a token; 8 tokens are 16 kB at 100 GB/s.
  const LinkProfile tokens = file.read(
      curves + "  - {kind: all_to_all, gpus: 4, tokens: [4, 8], rows_per_token: 2, row_bytes: 1000, us: [20, 100]}\n");
  CHECK(to_us(tokens.time(CollectiveKind::kAllToAll, 4, Seconds(16e3 / 100e9)).time) == doctest::Approx(100));
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, tokens: [4], row_bytes: 1000, us: [20]}\n", 6,
                     "curves[0].rows_per_token", "required");
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, tokens: [4], mib: [1], us: [20]}\n", 6, "curves[0].mib",
                     "either");
  file.check_refused(kHead + "curves: []\nbandwidth: 3\n", 5, "curves", "at least one");
  file.check_refused(curves + "  - {kind: all_to_all, gpus: 4, mib: [1], us: [20]}\nbandwidth: 3\n", 7, "bandwidth",
                     "unknown");
  file.check_refused(
      "tier: intra\nlink_rate: 100GB/s\nbase_latency: {value: 5, per_message: 1, origin: measured, source: a test}\n"
      "source: a test\ncurves: []\n",
      3, "base_latency.per_message", "between nodes");
  file.check_refused(kHead + "borrow: {from: ./link.yaml, kinds: [all_to_all], reason: itself}\n", 5, "borrow.from",
                     "catalogue");
}

TEST_CASE("prompts that fill an fp8 cache have the engine's own table, or the bf16 one") {
  MoeSpec model = find_model("DeepSeek-R1");
  model.bytes_per_kv = 1;
  const auto table = [&](const char* gpu, const char* engine) {
    ComputeProfile profile = compute_profile(gpu, "");
    profile.use_kernels_of(engine);
    const std::string op = prefill_op(model, *profile.fitted);
    CHECK(asks_for(model, "mla_prefill", *profile.fitted) ==
          (op == "mla_prefill"));  // told where it stands in, only there
    const std::string& source = profile.fitted->find(op)->source;
    return op + (source.find("/sglang/") != std::string::npos ? " of SGLang" : " of TensorRT-LLM");
  };
  CHECK(table("b200", "sglang") == "mla_prefill_fp8 of SGLang");
  CHECK(table("b200", "trtllm") == "mla_prefill_fp8 of TensorRT-LLM");
  CHECK(table("h200", "trtllm_1_2") == "mla_prefill_fp8 of TensorRT-LLM");  // of 1.3
  CHECK(table("b200", "vllm") == "mla_prefill of SGLang");
  CHECK(table("h200", "sglang") == "mla_prefill of TensorRT-LLM");
}

TEST_CASE("a compute profile of the user, and what is wrong with it") {
  const test::TempDir folder;
  const std::string text =
      "peak: 100TF/s\n"
      "dense_gemm: {source: a test, rows: [1, 10], tflops: [1, 120]}\n";
  std::ofstream(folder / "gpu.yaml") << text;
  try {
    compute_profile((folder / "gpu.yaml").string(), "");
    FAIL("more than the peak was accepted");
  } catch (const InputError& e) {
    CHECK(e.place.line == 2);
    CHECK(e.place.key == "dense_gemm.tflops");
  }
}
