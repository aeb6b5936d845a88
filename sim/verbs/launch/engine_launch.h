// How an engine is started as a recommended deployment: one file an engine, with its row in engine_launch.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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
  int instances = 0;  // spare ones too
  bool dense = false, deep_ep = false;
  std::int64_t context = 0;           // tokens that a request may have
  bool beyond_model = false;          // more than the model's configuration says
  std::int64_t low_latency_rows = 0;  // scenario/engine_defaults.h
  ExpertFile experts;
  Hosts hosts = hosts_of(design);

  bool whole() const { return design.role == InstanceRole::kWhole; }
  int ranks() const { return design.gpus / design.attention_tp; }
};

struct EngineLaunch {
  std::string_view engine;  // what names of its versions begin with; also its format of epsim plan
  const char* plan_ending;  // of a file in that format
  int first_port = 0;       // of an instance
  int port_step = 1;        // from one instance of a host to the next
  // Starts an instance: no flags of the scenario's knobs, no port.
  std::string (*command)(const LaunchedPool&);
  // A knob of the section `serving` as a flag, where it is one (docs/serving.md); may be empty.
  std::optional<std::string> (*flag)(const std::string& knob, const std::string& value, const CapacityDesign&);
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
// A knob as a flag of its name with dashes, if it is one of `known`. `off`: what goes before a switch that is false; ""
// where there is no such flag.
std::optional<std::string> flag_among(std::initializer_list<std::string_view> known, const std::string& knob,
                                      const std::string& value, std::string_view off);
// Where an engine has no router for whole instances.
inline constexpr const char* kInTurn = "# Spread requests over all instances, one after the other, as the runs did.\n";

extern const EngineLaunch kSglangLaunch, kVllmLaunch, kTrtllmLaunch;

}  // namespace epsim
