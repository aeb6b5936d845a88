// How an engine is started as a recommended deployment: one file an engine, with its row in engine_launch.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/study/capacity.h"

namespace epsim {

// Where the processes of an instance run: on several hosts, or beside others on one.
struct Hosts {
  int each = 1;    // of an instance
  int beside = 1;  // instances on one
  int gpus = 0;    // of an instance on each
};
Hosts hosts_of(const CapacityDesign& design);

// What a pool's experts are at, in the engine's own file.
struct ExpertFile {
  std::string name, text;  // no name: experts start in order
  std::string refused;     // why there is none
  int copies = 0;          // of a layer
};

struct LaunchedPool {
  const CapacityDesign& design;
  const PlannedPool& planned;
  int instances = 0;         // spare ones too
  std::int64_t context = 0;  // tokens that a request may have
  ExpertFile experts;
  Hosts hosts = hosts_of(design);

  const MoeSpec& model() const { return planned.model; }
  const SpeculativeOptions& drafts() const { return planned.pool.serving.speculative; }
  bool whole() const { return design.role == InstanceRole::kWhole; }
  bool fp8_cache() const { return model().bytes_per_kv == 1; }
  bool beyond_model() const { return model().context > 0 && planned.longest_request > model().context; }
  int ranks() const { return design.gpus / design.attention_tp; }
  // DeepEP moves the tokens, in steps with prompts or in all; and in those of decodes alone where they differ.
  bool deep_ep() const;
  Transport transport_of(bool decodes) const;
};

// The scenario's section `serving` as it was given. A command takes what it states; what is left is noted.
class GivenKnobs {
 public:
  explicit GivenKnobs(std::vector<std::pair<std::string, std::string>> given) : given_(std::move(given)) {}

  // Its value, "" where it was not given. Lists: their elements, with spaces between them.
  std::string take(std::string_view knob);
  // Those of `known` as flags of their names with dashes. `off`: what goes before a switch that is false; "" where there
  // is no such flag.
  std::string flags(std::initializer_list<std::string_view> known, std::string_view off);
  const std::vector<std::pair<std::string, std::string>>& left() const { return given_; }

 private:
  std::vector<std::pair<std::string, std::string>> given_;
};

struct EngineLaunch {
  std::string_view engine;  // what names of its versions begin with; also its format of epsim plan
  const char* plan_ending;  // of a file in that format
  int first_port = 0;       // of an instance
  int port_step = 1;        // from one instance of a host to the next
  bool by_mpi = false;      // one command starts the processes on all hosts of an instance
  // Starts an instance, without its port.
  std::string (*command)(const LaunchedPool&, GivenKnobs&);
  // What it does not do as the run had it: comments, each a line.
  std::string (*notes)(const LaunchedPool&);
  // What requests are sent to: of one pool, or of prefill and decode instances.
  std::string (*router)(std::span<const LaunchedPool> pools);
};

// `name`: an engine or one of its versions.
const EngineLaunch& launch_of(std::string_view name);
// The version that a name stands for: "sglang_0_5" of "sglang".
std::string_view engine_version(std::string_view name);
std::string role_name(const CapacityDesign& design);
// Where an engine has no router for whole instances.
std::string spread_by(Router router);
// A comment where it is not what the script starts: one that takes instances in turn, or `other`.
std::string not_the_router(Router router, Router other = Router::kRoundRobin);
// Of drafts that no layer of the checkpoint proposes.
inline constexpr const char* kOwnDrafter = "# The runs drafted as a layer like the model's last; name your drafter.\n";

extern const EngineLaunch kSglangLaunch, kVllmLaunch, kTrtllmLaunch;

}  // namespace epsim
