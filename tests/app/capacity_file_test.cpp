// What `epsim capacity` refuses in a file: by file, line and key.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "tests/app/process.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {

TEST_CASE("capacity names file, line and key of what is wrong in a file, and the option of what is wrong there") {
  const TempDir dir;
  const std::string lines[] = {
      "model: olmoe-1b-7b\n", "rate: 20/s\n",        "input_tokens: 100\n", "output_tokens: 10\n",
      "slo: ttft.p99<2s\n",   "nodes: [DGX-H100]\n", "sizes: [1]\n",        "policies: [contiguous]\n"};
  const auto refused = [&](std::size_t line, const std::string& text, const char* why, const char* options = "") {
    CAPTURE(text);
    std::string file;
    for (std::size_t i = 0; i < std::size(lines); ++i) {
      file += i + 1 == line ? text + "\n" : lines[i];
    }
    std::ofstream(dir / "ask.yaml") << file << (line > std::size(lines) ? text + "\n" : "");
    const Outcome told = run_epsim(dir, std::string("capacity ask.yaml -q -o out ") + options);
    CHECK(told.exit_code == 2);
    check_contains(told.err, {why});
  };
  refused(1, "model: olmo-1b-7b", "ask.yaml:1: `model`: unknown model 'olmo-1b-7b'");
  refused(2, "rate: 20", "ask.yaml:2: `rate`: '20' is not a number with the unit /s.");
  refused(3, "input_tokens: -4", "ask.yaml:3: `input_tokens`: '-4' is not a number of at least 1.");
  refused(5, "slo: ttft.p99<2", "ask.yaml:5: `slo`: ");
  refused(5, "ttft: p99=2", "ask.yaml:5: `ttft`: ");
  refused(6, "nodes: [p5.48xlarg]", "ask.yaml:6: `nodes`: unknown node 'p5.48xlarg'");
  refused(6, "nodes: []", "ask.yaml:6: `nodes`: the list is empty");
  refused(7, "sizes: [0]", "ask.yaml:7: `sizes`: '0' is neither a number of nodes nor a part of one");
  refused(8, "policies: [bas]", "ask.yaml:8: `policies`: unknown policy 'bas'");
  refused(9, "growth: lots", "ask.yaml:9: `growth`: 'lots' is not a number.");
  refused(9, "price: [DGX-H100=3]", "ask.yaml:9: `price`: 'DGX-H100=3' is not NODE=PRICE");
  refused(9, "engines: [sglan]", "ask.yaml:9: `engines`: unknown value 'sglan'");
  refused(9, "scenario: {requests: {kind: poisson, rate: 1, count: 9, input_tokens: 9, output_tokens: 9}}",
          "ask.yaml:9: `scenario.requests.rate`: ");
  refused(9, "growth: 0", "epsim: `input-tokens`: '-4' is not a number of at least 1.", "--input-tokens=-4");
  refused(9, "growth: 0", "epsim: `nodes`: unknown node 'p9'", "--nodes p9");
}

// 2 sizes x 1 mode x 2 policies on 1 node with 1 layout are 4 designs, however the file writes its lists.
TEST_CASE("capacity takes one value in a file where a list is meant, as on the command line") {
  const TempDir dir;
  const auto told = [&](const std::string& lists) {
    std::ofstream(dir / "ask.yaml") << "model: olmoe-1b-7b\nrate: 20/s\ninput_tokens: 100\noutput_tokens: 10\n"
                                       "slo: ttft.p99<2s\nquick: true\n"
                                    << lists;
    const Outcome out = run_epsim(dir, "capacity ask.yaml -q --overwrite -o plan");
    REQUIRE_MESSAGE(out.exit_code == 0, out.err);
    check_contains(out.out, {"4 designs, ", "(your price)"});
    return out.out;
  };
  const std::string listed = told(
      "nodes: [DGX-H100]\nsizes: [1, 2]\nattention_tp: [8]\nep_size: [all]\nmodes: [together]\nengines: [sglang]\n"
      "dtypes: [bf16]\npolicies: [contiguous, base]\nvary: ['memory.static_fraction=0.8']\n"
      "price: [DGX-H100=20usd/h]\n");
  CHECK(told("nodes: DGX-H100\nsizes: 1,2\nattention_tp: 8\nep_size: all\nmodes: together\nengines: sglang\n"
             "dtypes: bf16\npolicies: contiguous,base\nvary: memory.static_fraction=0.8\nprice: DGX-H100=20usd/h\n") ==
        listed);
}

}  // namespace epsim::test
