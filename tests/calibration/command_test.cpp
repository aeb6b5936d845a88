// The program epsim-calibrate as a user drives it, with a simulated device.
#include "calibration/measure/command.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "calibration/measure/provenance.h"
#include "calibration/points.h"
#include "sim/core/error.h"
#include "tests/calibration/fake_device.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"
#include "traces/format/trace_file.h"

namespace epsim::test {
namespace {

using namespace measure;

struct Program {
  TempDir folder;
  FakeClock clock;
  bool interrupted = false;
  std::string printed;

  int run(std::vector<std::string> words) {
    CommandContext context;
    context.open = [this] {
      auto device = std::make_unique<FakeDevice>(clock);
      device->waive["peer_copy"] = "needs 2 GPUs, there is 1";
      Provenance p;
      p.gpu = device->machine.name;
      p.cuda = "13.0";
      return OpenedDevice{std::move(device), p};
    };
    struct Shared : Clock {
      explicit Shared(const FakeClock& of) : clock(of) {}
      Seconds now() const override { return clock.now(); }
      const FakeClock& clock;
    };
    context.clock = std::make_unique<Shared>(clock);
    context.interrupted = [this] { return interrupted; };
    std::ostringstream out;
    const int code = calibrate(words, context, out);
    printed = out.str();
    return code;
  }
  std::string file() const { return (folder / "points.h5").string(); }
};

// One row of loads for Mixtral-8x7B: 32 layers of 8 experts, top-2, all layers alike.
void write_skewed_trace(const std::filesystem::path& file) {
  TraceInfo info;
  info.model_layers = 32;
  info.experts = 8;
  info.top_k = 2;
  std::vector<double> counts;
  for (int layer = 0; layer < 32; ++layer) {
    info.layer_numbers.push_back(layer);
    counts.insert(counts.end(), {20, 20, 70, 10, 5, 5, 5, 5});
  }
  const std::vector<std::int64_t> tokens = {70};
  TraceFileWriter out(file);
  out.begin(info, 1);
  out.loads({counts, tokens});
  out.commit();
}

TEST_CASE("two operators of one model, measured, refused, resumed and begun anew") {
  Program p;
  const std::vector<std::string> words = {"--only", "norm,peer_copy", "--models", "Mixtral-8x7B", "--output", p.file()};
  CHECK(p.run(words) == 0);
  check_contains(p.printed, {"waived: peer_copy: needs 2 GPUs", "17 points measured now, 0 before, 0 failed"});
  const PointFile file = read_points(p.file());
  CHECK(file.tables.size() == 1);
  CHECK(file.provenance.machine == "fake-1000");
  CHECK(!file.provenance.git_revision.empty());
  check_contains(file.provenance.notes, {"waived peer_copy: needs 2 GPUs"});

  check_contains(error_of<InputError>([&] { p.run(words); }).what(), {"exists", "--resume", "--overwrite"});
  auto more = words;
  more.push_back("--resume");
  CHECK(p.run(more) == 0);
  check_contains(p.printed, {"0 points measured now, 17 before"});
  more.back() = "--overwrite";
  CHECK(p.run(more) == 0);
  check_contains(p.printed, {"17 points measured now, 0 before"});
}

TEST_CASE("the quick sweep of everything ends within two minutes of the machine's time") {
  Program p;
  CHECK(p.run({"--quick", "--output", p.file()}) == 0);
  check_contains(p.printed, {"the time is used up"});
  CHECK(p.clock.time < Seconds(125));
  CHECK(p.clock.time > Seconds(119));
  const PointFile file = read_points(p.file());
  CHECK(file.tables.size() == 12);  // of 18, without peer_copy and the five collectives of one GPU
  for (const PointTable& t : file.tables) {
    CHECK_MESSAGE(t.size() >= 3, t.op, " has ", t.size());
  }
}

TEST_CASE("interruption has its own exit code") {
  Program p;
  p.interrupted = true;
  CHECK(p.run({"--quick", "--output", p.file()}) == 130);
  check_contains(p.printed, {"interrupted", "--resume"});
}

TEST_CASE("the list and the dry run measure nothing") {
  Program p;
  CHECK(p.run({"--list"}) == 0);
  check_contains(p.printed, {"grouped_gemm ", "nccl_all_to_allv", "[waived: needs 2 GPUs, there is 1]"});
  CHECK(p.run({"--dry-run", "--quick", "--models", "DeepSeek-R1"}) == 0);
  check_contains(p.printed, {"grouped_gemm", "budget 120 s"});
  CHECK(p.clock.time.count() == 0);
  CHECK(p.run({"--machine-name"}) == 0);
  CHECK(p.printed == "fake-1000\n");
  CHECK(p.run({"--help"}) == 0);
  check_contains(p.printed, {"--quick", "--resume", "--trace"});
}

TEST_CASE("a trace's load gives points with its rows") {
  Program p;
  const std::string trace = (source_dir() / "traces/samples").string();
  CHECK_THROWS_AS(p.run({"--trace", trace + "/none.h5", "--models", "DeepSeek-R1", "--dry-run"}), InputError);
  write_skewed_trace(p.folder / "skewed.h5");
  std::vector<std::string> words = {"--trace",  (p.folder / "skewed.h5").string(),
                                    "--models", "Mixtral-8x7B",
                                    "--only",   "grouped_gemm",
                                    "--budget", "20s",
                                    "--output", p.file()};
  CHECK(p.run(words) == 0);
  const PointFile file = read_points(p.file());
  const PointTable& t = *file.find("grouped_gemm");
  int from_trace = 0;
  for (std::size_t i = 0; i < t.size(); ++i) {
    if (t.values_of("distribution")[i] == 3 && t.values_of("local_experts")[i] == 2) {
      // Experts 2 and 3 are the busiest pair of neighbours: 70 and 10 of 140, so that seven of eight rows are one's.
      CHECK(t.values_of("rows_max")[i] == std::ceil(t.values_of("rows")[i] * 7 / 8));
      ++from_trace;
    }
  }
  CHECK(from_trace > 0);
  words.insert(words.end(), {"--trace-layer", "32", "--overwrite"});
  check_contains(error_of<InputError>([&] { p.run(words); }).what(), {"32 MoE layers"});
  check_contains(error_of<InputError>([&] { p.run({"--trace", trace, "--dry-run"}); }).what(), {"--models"});
}

TEST_CASE("what cannot be meant is refused with the nearest name") {
  Program p;
  const auto says = [&](std::vector<std::string> words) {
    return std::string(error_of<InputError>([&] { p.run(words); }).what());
  };
  check_contains(says({"--only", "groupd_gemm"}), {"unknown operator 'groupd_gemm'", "nearest first: grouped_gemm"});
  check_contains(says({"--qick"}), {"unknown option", "--quick"});
  check_contains(says({"--quick", "--full"}), {"exclude each other"});
  check_contains(says({"--resume", "--overwrite"}), {"exclude each other"});
  check_contains(says({"--budget", "soon"}), {"--budget"});
  check_contains(says({"--relative-error", "2"}), {"between 0 and 1"});
  check_contains(says({"--relative-error", "x"}), {"no number"});
  check_contains(says({"--models", "DeepSeek-R9"}), {"DeepSeek-R1"});
}

TEST_CASE("a machine without a device says so, and can still list") {
  Program p;
  CommandContext context;
  context.open = []() -> OpenedDevice { throw RunFailed("no CUDA device: no driver"); };
  std::ostringstream out;
  CHECK(calibrate({"--list"}, context, out) == 0);
  check_contains(out.str(), {"nothing can be measured here: no CUDA device: no driver"});
  CHECK_THROWS_AS(calibrate({"--quick", "--output", p.file()}, context, out), RunFailed);
  CHECK(!std::filesystem::exists(p.file()));
}

TEST_CASE("profiles are named after the GPU") {
  CHECK(machine_name("NVIDIA H200") == "h200");
  CHECK(machine_name("NVIDIA A100-SXM4-80GB") == "a100-sxm4-80gb");
  CHECK(machine_name("NVIDIA GeForce RTX 4090 (x)") == "geforce-rtx-4090-x");
  CHECK(cuda_version_text(13010) == "13.1");
  CHECK(library_version_text(22809) == "2.28.9");
}

}  // namespace
}  // namespace epsim::test
