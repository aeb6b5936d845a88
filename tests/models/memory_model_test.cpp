// The KV-cache arithmetic of CRAFT's setups (paper sections 3 and 5), worked out from the models' shapes.
#include "models/memory/memory_model.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "sim/core/error.h"

using namespace epsim;

namespace {

constexpr double kExpertMib = 84.0;  // 3 x 7168 x 2048 x 2 B = 88,080,384 B
constexpr double kUsableGib = 79.15;

// DeepSeek-R1 on 8 nodes is "D8", Kimi-K2 on 6, 8 and 12 nodes "K6", "K8", "K12".
struct Setup {
  std::string model;
  int nodes;
};
const Setup kD8{"DeepSeek-R1", 8}, kK6{"Kimi-K2", 6}, kK8{"Kimi-K2", 8}, kK12{"Kimi-K2", 12};

struct World {
  explicit World(const Setup& setup)
      : model(find_model(setup.model)), cluster{find_node("p4de.24xlarge").spec, setup.nodes} {
    parallelism.gpus = cluster.gpus();
    parallelism.attention_tp = 8;
  }
  // `copies` per GPU over all layers.
  std::vector<std::int64_t> resident(std::int64_t copies) const {
    const std::int64_t base = static_cast<std::int64_t>(model.experts) * model.moe_layers() / cluster.gpus();
    return std::vector<std::int64_t>(static_cast<std::size_t>(cluster.gpus()), base + copies);
  }
  MemoryBreakdown breakdown(const MemoryOptions& options, std::int64_t copies) const {
    return memory_breakdown(model, cluster, parallelism, options, resident(copies));
  }
  double loss_percent(const MemoryOptions& options, std::int64_t copies) const {
    return 100 * breakdown(options, copies).extras_loss;
  }

  MoeSpec model;
  ClusterSpec cluster;
  Parallelism parallelism;
};

MemoryOptions fraction(double f) {
  MemoryOptions options;
  options.static_fraction = f;
  return options;
}

// "One rule" for all of CRAFT's setups: a pool of 59.8 - 1.26 x nodes GiB. The slope has the size of worst-case MoE
// activations of one 4096-token rank: 4096 x 8 rows of permuted input (7168), gate and up (2 x 2048), activation (2048)
// and output (7168) in bf16 are 1280 MiB.
MemoryOptions one_rule() {
  MemoryOptions options = fraction(59.8 / kUsableGib);
  options.reserve_per_node = Bytes(1.26 * kGiB);
  return options;
}

}  // namespace

TEST_CASE("one expert and its copies") {
  const MoeSpec deepseek = find_model("DeepSeek-R1"), kimi = find_model("Kimi-K2");
  CHECK(deepseek.expert_bytes().count() == 3.0 * 7168 * 2048 * 2);
  CHECK(deepseek.expert_bytes().count() / kMiB == kExpertMib);
  CHECK(kimi.expert_bytes().count() / kMiB == kExpertMib);
  // EPLB adds one copy per GPU and MoE layer: 58 x 84 MiB = 4.758 GiB and 60 x 84 MiB = 4.922 GiB.
  CHECK(deepseek.moe_layers() == 58);
  CHECK(kimi.moe_layers() == 60);
  const MemoryBreakdown d8 = World(kD8).breakdown(fraction(0.628), 58);
  const MemoryBreakdown k8 = World(kK8).breakdown(fraction(0.637), 60);
  CHECK(d8.expert_copies.count() == 58 * kExpertMib * kMiB);
  CHECK(to_gib(d8.expert_copies) == doctest::Approx(4.758).epsilon(1e-4));
  CHECK(to_gib(k8.expert_copies) == doctest::Approx(4.922).epsilon(1e-4));
  // CRAFT with R = 8: 8 x 84 MiB = 0.656 GiB.
  CHECK(to_gib(World(kK8).breakdown(fraction(0.637), 8).expert_copies) == 8 * kExpertMib / 1024);
}

TEST_CASE("experts per GPU without copies: 8, 6, 4 per layer on 6, 8, 12 nodes") {
  struct Row {
    Setup setup;
    double per_layer;
  };
  for (const Row& r : {Row{kK6, 8}, Row{kK8, 6}, Row{kK12, 4}, Row{kD8, 4}}) {
    CAPTURE(r.setup.model);
    CAPTURE(r.setup.nodes);
    const World w(r.setup);
    const MemoryBreakdown b = w.breakdown(one_rule(), 0);
    CHECK(b.experts_base.count() == r.per_layer * w.model.moe_layers() * kExpertMib * kMiB);
    CHECK(b.expert_copies.count() == 0);
    CHECK(b.extras_loss == 0);
  }
}

TEST_CASE("KV cache of a token: the MLA latent, whole on every GPU of the rank") {
  // (512 + 64) elements x 61 layers x 2 B
  CHECK(576 * 61 * 2 == 70272);
  for (const Setup& setup : {kD8, kK6}) {
    World w(setup);
    CHECK(w.breakdown(fraction(0.637), 0).kv_per_token.count() == 70272);
    w.parallelism.attention_tp = 1;
    CHECK(w.model.kv_bytes_per_token(1).count() == 70272);
  }
}

TEST_CASE("weights by group, DeepSeek-R1 on 8 nodes, attention over 8 GPUs") {
  const WeightBytes w = weights_per_gpu(World(kD8).model, World(kD8).parallelism);
  const double to_bytes = 2;  // bf16
  CHECK(w.attention_replicated.count() == 61.0 * 7168 * (1536 + 512 + 64) * to_bytes);
  const double q_b = 1536.0 * 128 * (128 + 64), kv_b = 512.0 * 128 * (128 + 128), o = 128.0 * 128 * 7168;
  CHECK(w.attention_split.count() == 61 * (q_b + kv_b + o) * to_bytes / 8);
  CHECK(w.dense_ffn.count() == 3 * (3.0 * 7168 * 18432) * to_bytes / 8);
  CHECK(w.shared_experts.count() == 58 * (3.0 * 7168 * 2048) * to_bytes / 8);
  CHECK(w.router.count() == 58 * (7168.0 * 256) * to_bytes);
  CHECK(w.embedding.count() == 2 * (129280.0 * 7168) * to_bytes / 8);
  // The same in GiB as usually quoted, unsplit: 1.72, 19.54, 2.215, 4.758, 0.20, 3.452.
  CHECK(to_gib(w.attention_replicated) == doctest::Approx(1.72).epsilon(0.003));
  CHECK(to_gib(w.attention_split) * 8 == doctest::Approx(19.54).epsilon(0.001));
  CHECK(to_gib(w.dense_ffn) * 8 == doctest::Approx(2.215).epsilon(0.001));
  CHECK(to_gib(w.shared_experts) * 8 == doctest::Approx(4.758).epsilon(0.001));
  CHECK(to_gib(w.embedding) * 8 == doctest::Approx(3.452).epsilon(0.001));
}

TEST_CASE("weights per GPU under four sharding schemes") {
  struct Scheme {
    const char* name;
    std::function<void(Parallelism&)> apply;
    double d8, k6, k8, k12;
  };
  const std::vector<Scheme> schemes = {
      {"all split over 8", [](Parallelism&) {}, 24.70, 43.88, 34.03, 24.19},
      {"shared experts whole", [](Parallelism& p) { p.shared_experts = Sharding::kReplicated; }, 28.86, 48.18, 38.34,
       28.50},
      {"shared experts, dense FFN and embedding whole",
       [](Parallelism& p) { p.shared_experts = p.dense_ffn = p.embedding = p.lm_head = Sharding::kReplicated; }, 33.82,
       52.66, 42.82, 32.97},
      {"everything whole: data-parallel attention", [](Parallelism& p) { p.attention_tp = 1; }, 50.91, 61.21, 51.36,
       41.52},
  };
  for (const Scheme& s : schemes) {
    CAPTURE(s.name);
    const auto weights = [&](const Setup& setup) {
      World w(setup);
      s.apply(w.parallelism);
      return to_gib(w.breakdown(fraction(0.9), 0).weights_total());
    };
    CHECK(weights(kD8) == doctest::Approx(s.d8).epsilon(0.01 / s.d8));
    CHECK(weights(kK6) == doctest::Approx(s.k6).epsilon(0.01 / s.k6));
    CHECK(weights(kK8) == doctest::Approx(s.k8).epsilon(0.01 / s.k8));
    CHECK(weights(kK12) == doctest::Approx(s.k12).epsilon(0.01 / s.k12));
  }
}

TEST_CASE("KV cache lost to copies, with CRAFT's pool implied setup by setup") {
  // Pool = fraction x 79.15 GiB; loss = copies / (pool - weights).
  //   D8  0.628: 49.71 - 24.70 = 25.01 GiB; EPLB 4.758 -> 19.0 %
  //   K6  0.637: 50.42 - 43.88 =  6.54 GiB; EPLB 4.922 -> 75.3 %, CRAFT R=8 0.656 -> 10.0 %
  //   K12 0.565: 44.72 - 24.19 = 20.53 GiB; EPLB 4.922 -> 24.0 %
  CHECK(World(kD8).loss_percent(fraction(0.628), 58) == doctest::Approx(19.0).epsilon(0.01));
  CHECK(World(kK6).loss_percent(fraction(0.637), 60) == doctest::Approx(75.3).epsilon(0.01));
  CHECK(World(kK12).loss_percent(fraction(0.565), 60) == doctest::Approx(24.0).epsilon(0.01));
  // The paper says 6 % here, which contradicts its 75 %: the copies are alike, so the two stand as 8 to 60 in every
  // model with a fixed pool.
  CHECK(World(kK6).loss_percent(fraction(0.637), 8) == doctest::Approx(10.0).epsilon(0.01));
  // With the recommended 0.63 on D8 the loss moves by less than two points.
  CHECK(World(kD8).loss_percent(fraction(0.63), 58) == doctest::Approx(18.9).epsilon(0.01));
}

TEST_CASE("EPLB's and CRAFT's losses stand as 60 to 8 copies on Kimi-K2, and 58 to 8 on DeepSeek-R1") {
  for (const double f : {0.637, 0.7, 0.9}) {
    CHECK(World(kK6).loss_percent(fraction(f), 60) / World(kK6).loss_percent(fraction(f), 8) ==
          doctest::Approx(7.5).epsilon(1e-9));
    CHECK(World(kD8).loss_percent(fraction(f), 58) / World(kD8).loss_percent(fraction(f), 8) ==
          doctest::Approx(7.25).epsilon(1e-9));
  }
}

TEST_CASE("KV cache lost to copies under one rule for all setups") {
  //   D8  59.8 - 10.08 - 24.70 = 25.02 GiB; EPLB 19.0 %
  //   K6  59.8 -  7.56 - 43.88 =  8.36 GiB; EPLB 58.9 %, CRAFT R=8 7.8 %
  //   K8  59.8 - 10.08 - 34.03 = 15.69 GiB; EPLB 31.4 %, CRAFT R=8 4.2 %
  //   K12 59.8 - 15.12 - 24.19 = 20.49 GiB; EPLB 24.0 %
  // Quoted as 19.0, 58.7, 7.8 (K8: 31.3, 4.2) and 24.0 from coefficients with more digits than 59.8 and 1.26.
  CHECK(World(kD8).loss_percent(one_rule(), 58) == doctest::Approx(19.0).epsilon(0.005));
  CHECK(World(kK6).loss_percent(one_rule(), 60) == doctest::Approx(58.7).epsilon(0.005));
  CHECK(World(kK6).loss_percent(one_rule(), 8) == doctest::Approx(7.8).epsilon(0.01));
  CHECK(World(kK8).loss_percent(one_rule(), 60) == doctest::Approx(31.3).epsilon(0.005));
  CHECK(World(kK8).loss_percent(one_rule(), 8) == doctest::Approx(4.2).epsilon(0.01));
  CHECK(World(kK12).loss_percent(one_rule(), 60) == doctest::Approx(24.0).epsilon(0.005));
}

TEST_CASE("tokens, blocks and requests of a DP rank") {
  // D8 without copies: 25.01 GiB / 70,272 B = 382 thousand tokens = 87 requests of 4352 tokens.
  const World w(kD8);
  MemoryOptions options = fraction(0.628);
  const MemoryBreakdown plain = w.breakdown(options, 0);
  REQUIRE(plain.ranks.size() == 8);
  CHECK(plain.ranks[0].tokens == static_cast<std::int64_t>(plain.kv_pool.count() / 70272));
  CHECK(plain.ranks[0].tokens / 4352 == 87);
  CHECK(plain.static_pool.count() == doctest::Approx(0.628 * 79.15 * kGiB));
  CHECK(plain.kv_pool.count() == doctest::Approx((plain.static_pool - plain.weights_total()).count()).epsilon(1e-12));
  options.kv_block_tokens = 64;
  const MemoryBreakdown paged = w.breakdown(options, 0);
  CHECK(paged.ranks[0].blocks == plain.ranks[0].tokens / 64);
  CHECK(paged.ranks[0].tokens == paged.ranks[0].blocks * 64);
  options.reserve = Bytes(2 * kGiB);
  options.resident_extra = Bytes(1 * kGiB);
  CHECK(to_gib(plain.kv_pool - w.breakdown(options, 0).kv_pool) == doctest::Approx(3.0));
  // A policy's buffer is what the pool lost, the user's reserve is not: 1 of (pool - 2) GiB.
  CHECK(w.breakdown(options, 0).extras_loss == doctest::Approx(1.0 / (to_gib(plain.kv_pool) - 2.0)));
}

TEST_CASE("a drafter's layer takes its weights and its keys out of the same memory") {
  const World world(kD8);
  MemoryOptions options = fraction(0.9);
  const MemoryBreakdown without = world.breakdown(options, 0);
  options.drafter = true;
  const MemoryBreakdown with = world.breakdown(options, 0);
  const WeightBytes& w = without.weights;
  // One of 61 attention layers and of 58 MoE layers, 4 experts on each of 64 GPUs, and 2 x 7168 x 7168 weights of 2 bytes.
  const double expected = (w.attention_replicated + w.attention_split).count() / 61 +
                          (w.shared_experts + w.router).count() / 58 + 4 * kExpertMib * 1048576 + 2.0 * 7168 * 7168 * 2;
  CHECK(with.reserves.count() == doctest::Approx(expected));
  CHECK(with.kv_per_token.count() == doctest::Approx(without.kv_per_token.count() * 62 / 61));
  CHECK(with.kv_pool.count() == doctest::Approx(without.kv_pool.count() - expected));
}

TEST_CASE("windows are kept for every sequence, or by a share of all tokens") {
  World world(kD8);
  world.model = find_model("gpt-oss-120b");
  world.parallelism.attention_tp = 1;
  MemoryOptions options = fraction(0.9);
  const MemoryBreakdown vllm = world.breakdown(options, 0);
  const double layer = 2.0 * 8 * 64 * 2;  // keys and values of 8 heads of 64, bf16
  CHECK(vllm.kv_per_token.count() == 18 * layer);
  CHECK(vllm.kv_per_sequence.count() == 18 * 128 * layer);
  options.window_share = 0.8;  // SGLang
  const MemoryBreakdown sglang = world.breakdown(options, 0);
  CHECK(sglang.kv_per_token.count() == doctest::Approx(18 * 1.8 * layer));
  CHECK(sglang.kv_per_sequence.count() == 0);
  CHECK(static_cast<double>(sglang.ranks[0].tokens) ==
        doctest::Approx(static_cast<double>(vllm.ranks[0].tokens) / 1.8));
}

TEST_CASE("a rank has what its tightest GPU has") {
  const World w(kD8);
  std::vector<std::int64_t> resident = w.resident(0);
  resident[21] += 10;  // rank 2 holds GPUs 16 to 23
  resident[40] += 4;   // rank 5 holds GPUs 40 to 47
  const MemoryBreakdown b = memory_breakdown(w.model, w.cluster, w.parallelism, fraction(0.628), resident);
  CHECK(b.tightest_gpu == 21);
  CHECK(b.ranks[2].tightest_gpu == 21);
  CHECK(b.ranks[5].tightest_gpu == 40);
  CHECK((b.ranks[0].pool - b.ranks[2].pool).count() == doctest::Approx(10 * kExpertMib * kMiB));
  CHECK((b.ranks[0].pool - b.ranks[5].pool).count() == doctest::Approx(4 * kExpertMib * kMiB));
  CHECK(b.kv_pool == b.ranks[2].pool);
  CHECK(b.extras_loss == doctest::Approx(10 * kExpertMib * kMiB / b.kv_pool_without_extras.count()));
  CHECK(b.ranks[2].tokens < b.ranks[5].tokens);
}

TEST_CASE("a stated number of blocks replaces the pool") {
  const World w(kD8);
  MemoryOptions options = fraction(0.9);
  options.kv_block_tokens = 16;
  options.num_gpu_blocks = 1000;
  const MemoryBreakdown b = w.breakdown(options, 58);
  CHECK(b.ranks[3].blocks == 1000);
  CHECK(b.ranks[3].tokens == 16000);
  CHECK(b.kv_pool.count() == 16000.0 * 70272);
  CHECK(b.extras_loss == 0);
  options.num_gpu_blocks = 1'000'000;  // 1048 GiB
  CHECK_THROWS_AS(w.breakdown(options, 0), DoesNotFit);
}

TEST_CASE("what does not fit names the GPU, the need and what there is") {
  World w(kK6);
  std::vector<std::int64_t> resident = w.resident(0);
  resident[17] += 100;  // 8.2 GiB more than the 6.5 GiB that are left
  try {
    memory_breakdown(w.model, w.cluster, w.parallelism, fraction(0.637), resident);
    FAIL("a GPU that is 1.7 GiB short was accepted");
  } catch (const DoesNotFit& e) {
    CHECK(e.gpu == 17);
    CHECK(to_gib(e.have) == doctest::Approx(0.637 * kUsableGib));
    CHECK(to_gib(e.need) == doctest::Approx(43.88 + 100 * kExpertMib / 1024).epsilon(0.001));
    CHECK(std::string(e.what()).find("GPU 17") != std::string::npos);
  }
  // Weights fit exactly, but no block does: the pool must hold at least one.
  MemoryOptions options = fraction(0.637);
  const Bytes left = w.breakdown(options, 0).kv_pool;
  options.reserve = left - Bytes(70272.0 / 2);
  CHECK_THROWS_AS(w.breakdown(options, 0), DoesNotFit);
  options.reserve = left - Bytes(70272.0 * 1.5);
  CHECK(w.breakdown(options, 0).ranks[0].tokens == 1);
}

TEST_CASE("a share that makes room is named where there is one") {
  const World w(kD8);
  MemoryOptions options = fraction(0.5);
  const Bytes usable = w.cluster.node.gpu.memory;
  CHECK(*static_fraction_for(usable * 0.25, w.cluster, options) == doctest::Approx(0.75));
  CHECK_FALSE(static_fraction_for(usable * 0.51, w.cluster, options).has_value());  // more than there is
  options.account = MemoryAccount::kVllm;  // what is gone before weights is taken whole, whatever the share
  CHECK(*static_fraction_for(usable * 0.25, w.cluster, options) == doctest::Approx(0.75));
  options.account = MemoryAccount::kTrtllm;  // a share of what weights leave
  CHECK_FALSE(static_fraction_for(1_B, w.cluster, options).has_value());
  options = fraction(0.5);
  options.num_gpu_blocks = 10;  // only the GPU is the limit
  CHECK_FALSE(static_fraction_for(1_B, w.cluster, options).has_value());
}

TEST_CASE("room for experts is the pool without the other weights") {
  const World w(kD8);
  const Bytes room = expert_memory(w.model, w.cluster, w.parallelism, fraction(0.628));
  const MemoryBreakdown b = w.breakdown(fraction(0.628), 0);
  CHECK(room.count() == doctest::Approx((b.kv_pool + b.experts_base).count()).epsilon(1e-12));
  CHECK_THROWS_AS(expert_memory(w.model, w.cluster, w.parallelism, fraction(0.05)), DoesNotFit);
}

TEST_CASE("options out of range are refused by key") {
  const World w(kD8);
  const auto refused = [&](const std::string& key, const std::function<void(MemoryOptions&)>& change) {
    MemoryOptions options = fraction(0.628);
    change(options);
    try {
      w.breakdown(options, 0);
      FAIL(key << " was accepted");
    } catch (const InputError& e) {
      CHECK(e.place.key == "memory." + key);
    }
  };
  refused("static_fraction", [](MemoryOptions& o) { o.static_fraction = 0; });
  refused("static_fraction", [](MemoryOptions& o) { o.static_fraction = 1.01; });
  refused("reserve", [](MemoryOptions& o) { o.reserve = Bytes(-1); });
  refused("reserve_per_node", [](MemoryOptions& o) { o.reserve_per_node = Bytes(-1); });
  refused("resident_extra", [](MemoryOptions& o) { o.resident_extra = Bytes(-1); });
  refused("kv_block_tokens", [](MemoryOptions& o) { o.kv_block_tokens = 0; });
  refused("num_gpu_blocks", [](MemoryOptions& o) { o.num_gpu_blocks = 0; });
}
