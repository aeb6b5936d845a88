// Rows that a run is priced with against the same counted token by token, for GRACE-MoE's components on tokens that no
// plan has seen: generated ones of another domain.
#include <doctest/doctest.h>

#include <string>

#include "tests/policies/joint_use_support.h"
#include "traces/routing_model/presets.h"
#include "traces/routing_model/token_sampler.h"

using namespace epsim;

namespace {

// 128 prompts of 64 tokens from sequence `first` on.
std::vector<std::uint16_t> drawn_prompts(TokenSampler& sampler, const test::RoutingShape& shape, int first) {
  constexpr std::size_t kPromptsDrawn = 128, kPromptLength = 64;
  const std::size_t prompt = shape.ids_per_token() * kPromptLength;
  std::vector<std::uint16_t> out(prompt * kPromptsDrawn);
  for (std::size_t s = 0; s < kPromptsDrawn; ++s) {
    sampler.sample(first + static_cast<int>(s), kPromptLength, std::span(out).subspan(prompt * s, prompt));
  }
  return out;
}

}  // namespace

TEST_CASE("rows of a run are those counted token by token, within 3 %: OLMoE, DeepSeek-V2-Lite, Qwen3-30B") {
  for (const std::string preset : {"olmoe", "deepseek-v2-lite", "qwen3-30b"}) {
    CAPTURE(preset);
    RoutingModel model = routing_preset(preset);
    model.layers.resize(6);
    const RoutingLaw law(std::move(model));
    const test::RoutingShape shape{law.layers(), law.experts(), law.top_k()};
    TokenSampler sampler(law, Seed{3});
    const std::vector<std::uint16_t> planned = drawn_prompts(sampler, shape, 0),
                                     run = drawn_prompts(sampler, shape, 100000);
    test::check_joint_rows<std::uint16_t>(test::window_from_routing<std::uint16_t>(planned, shape), run, shape, 0.03);
  }
}
