// The host's side of policies/plugin/plugin.h: finds the file, checks it, turns what it puts into a plan.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/plan_tools.h"
#include "policies/plugin/plugin.h"
#include "policies/registry.h"
#include "sim/core/config.h"

namespace epsim {
namespace {

struct Problem {
  std::string key, text;
};

// What the callbacks of one call collect. They must not throw through the plug-in, so mistakes are kept for later.
struct Call {
  const LoadWindow* load = nullptr;
  ClusterShape shape;
  std::vector<std::vector<std::vector<int>>> slots;  // [layer][GPU]
  std::vector<std::vector<bool>> given;
  std::optional<Problem> problem;  // the first one

  void fail(std::string key, std::string text) {
    if (!problem) {
      problem = Problem{std::move(key), std::move(text)};
    }
  }
};

void on_fail(void* host, const char* key, const char* text) {
  static_cast<Call*>(host)->fail(key == nullptr ? "" : key, text == nullptr ? "it failed without a word." : text);
}

void on_put(void* host, std::int32_t layer, std::int32_t gpu, const std::int32_t* experts, std::int32_t count) {
  Call& call = *static_cast<Call*>(host);
  if (call.load == nullptr) {
    return call.fail("", "it put experts before it was asked for a plan.");
  }
  if (layer < 0 || layer >= call.load->layers() || gpu < 0 || gpu >= call.shape.gpus || count < 0) {
    return call.fail("", fmt::format("it put {} experts on GPU {} in layer {}; there are {} GPUs and {} layers.", count,
                                     gpu, layer, call.shape.gpus, call.load->layers()));
  }
  const auto l = static_cast<std::size_t>(layer), g = static_cast<std::size_t>(gpu);
  if (call.given[l][g]) {
    return call.fail("", fmt::format("it filled GPU {} in layer {} twice.", gpu, layer));
  }
  for (std::int32_t i = 0; i < count; ++i) {
    if (experts[i] < 0 || experts[i] >= call.load->experts()) {
      return call.fail("", fmt::format("it put expert {} on GPU {} in layer {}; experts are 0..{}.", experts[i], gpu,
                                       layer, call.load->experts() - 1));
    }
  }
  call.given[l][g] = true;
  call.slots[l][g].assign(experts, experts + count);
}

// A loaded file. It stays loaded as long as a policy from it lives.
class Library {
 public:
  Library(const std::filesystem::path& file, const InputPlace& place) {
    if (!std::filesystem::is_regular_file(file)) {
      throw InputError(place, fmt::format("there is no such file: {}.", file.string()));
    }
    // An absolute name: dlopen searches its own folders for others. NOW: a missing symbol shows here, not in mid-run.
    handle_ = dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      throw InputError(place, fmt::format("{} cannot be loaded as a plug-in: {}.", file.string(), dlerror()));
    }
    try {
      find_entry(file, place);
    } catch (...) {
      dlclose(handle_);
      throw;
    }
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  const epsim_plugin& entry() const { return *entry_; }

 private:
  void find_entry(const std::filesystem::path& file, const InputPlace& place) {
    void* symbol = dlsym(handle_, "epsim_plugin_entry");
    if (symbol == nullptr) {
      throw InputError(place, fmt::format("{} has no function epsim_plugin_entry, so it is no epsim plug-in; "
                                          "EPSIM_PLUGIN in epsim/plugin.h defines it.",
                                          file.string()));
    }
    entry_ = reinterpret_cast<epsim_plugin_entry_type>(symbol)();
    if (entry_ == nullptr) {
      throw InputError(place, fmt::format("epsim_plugin_entry of {} returned nothing.", file.string()));
    }
    if (entry_->abi != EPSIM_PLUGIN_ABI) {
      throw InputError(place,
                       fmt::format("{} was built for version {} of the plug-in interface, and this epsim has version "
                                   "{}; build it again with this epsim's headers.",
                                   file.string(), entry_->abi, EPSIM_PLUGIN_ABI));
    }
    if (entry_->create == nullptr || entry_->plan == nullptr || entry_->destroy == nullptr || entry_->name == nullptr) {
      throw InputError(place, fmt::format("{} leaves out a function or its name.", file.string()));
    }
  }

  void* handle_ = nullptr;
  const epsim_plugin* entry_ = nullptr;
};

class PluginPlacement final : public PlacementPolicy {
 public:
  PluginPlacement(const std::filesystem::path& file, ConfigReader& options)
      : place_(options.place("")), library_(file, place_) {
    const std::vector<std::pair<std::string, std::string>> given = options.rest();
    std::vector<epsim_option> list;
    for (const auto& [key, value] : given) {
      list.push_back({key.c_str(), value.c_str()});
    }
    Call call;
    const epsim_host host = {&call, on_put, on_fail};
    policy_ = library_.entry().create(list.data(), static_cast<std::int32_t>(list.size()), &host);
    if (call.problem || policy_ == nullptr) {
      if (policy_ != nullptr) {
        library_.entry().destroy(policy_);
      }
      const Problem problem = call.problem.value_or(Problem{"", "it could not be made and said no reason."});
      options.fail(problem.key, about(problem.text));
    }
  }
  ~PluginPlacement() override { library_.entry().destroy(policy_); }
  PluginPlacement(const PluginPlacement&) = delete;
  PluginPlacement& operator=(const PluginPlacement&) = delete;

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    Call call;
    call.load = &load;
    call.shape = shape;
    const auto layers = static_cast<std::size_t>(load.layers()), gpus = static_cast<std::size_t>(shape.gpus);
    call.slots.assign(layers, std::vector<std::vector<int>>(gpus));
    call.given.assign(layers, std::vector<bool>(gpus, false));
    const epsim_host host = {&call, on_put, on_fail};
    const epsim_loads loads = view(load);
    const epsim_shape asked = {shape.gpus, shape.gpus_per_node};
    library_.entry().plan(policy_, &loads, &asked, &host);
    if (call.problem) {
      throw InputError(place_, about(call.problem->text));
    }
    return collect(call);
  }

 private:
  std::string about(const std::string& problem) const {
    return fmt::format("plug-in '{}': {}", library_.entry().name, problem);
  }

  // The window's own arrays: rows lie one after the other.
  static epsim_loads view(const LoadWindow& load) {
    epsim_loads out = {load.layers(), load.experts(), load.layer(0).data(), load.batches(), 0, nullptr};
    if (load.batches() > 0) {
      out.by_batch = load.batches_of(0, 0).data();
      out.batch_stride = load.experts() > 1  ? load.batches_of(0, 1).data() - out.by_batch
                         : load.layers() > 1 ? load.batches_of(1, 0).data() - out.by_batch
                                             : load.batches();
    }
    return out;
  }

  PlacementPlan collect(const Call& call) const {
    PlacementPlan out{
        .policy = library_.entry().name, .experts = call.load->experts(), .gpus = call.shape.gpus, .layers = {}};
    for (std::size_t l = 0; l < call.slots.size(); ++l) {
      LayerPlan layer{.slots = {}, .first_slot = {0}, .copy_rank = {}};
      for (const std::vector<int>& experts : call.slots[l]) {
        layer.slots.insert(layer.slots.end(), experts.begin(), experts.end());
        layer.first_slot.push_back(static_cast<int>(layer.slots.size()));
      }
      const std::vector<int> copies = copies_by_expert(layer, out.experts);
      for (std::size_t e = 0; e < copies.size(); ++e) {
        if (copies[e] == 0) {
          throw InputError(place_, about(fmt::format("it put expert {} on no GPU in layer {}.", e, l)));
        }
      }
      out.layers.push_back(std::move(layer));
    }
    return out;
  }

  InputPlace place_;
  Library library_;
  void* policy_ = nullptr;
};

constexpr KeyTable kPluginKeys({
    {"plugin", key::path(), key::kNone, "Shared object of a policy of your own; its other options are its own."},
    {"path", key::path(), key::by("required without plugin"), "As `plugin`, in an entry of kind plugin."},
});

std::unique_ptr<PlacementPolicy> make_plugin(ConfigReader& options) {
  std::optional<std::filesystem::path> file = options.maybe_path(kPluginKeys["plugin"]);
  if (!file) {
    file = options.path(kPluginKeys["path"]);
  }
  return std::make_unique<PluginPlacement>(*file, options);
}

}  // namespace

extern const PlacementPolicyEntry kPlugin{
    {"plugin",
     "A policy of your own, with options of its own, loaded from a shared object: policies/plugin/plugin.h, "
     "experiments/plugin-example.",
     "what it likes", kPluginKeys, make_plugin}};

}  // namespace epsim
