/* A placement policy of your own, as a shared object that epsim loads at run time.
 *
 * The first half of this header is the binary interface: C, plain arrays, no memory that changes hands. The second half
 * is a thin C++17 layer over it; most plug-ins need that alone:
 *
 *   #include <epsim/plugin.h>
 *   class Mine final : public epsim::plugin::Policy {
 *    public:
 *     explicit Mine(epsim::plugin::Options& options) : copies_(options.whole("copies", 1)) {}
 *     epsim::plugin::Plan plan(const epsim::plugin::Loads&, const epsim::plugin::Shape&) const override;
 *   };
 *   EPSIM_PLUGIN(Mine, "mine", "What it does, in one sentence.")
 *
 * The header needs nothing else of epsim, and a plug-in links nothing of it.
 */
#ifndef EPSIM_PLUGIN_H
#define EPSIM_PLUGIN_H

#include <stdint.h>

/* The version of everything in this first half. epsim refuses a plug-in that was built for another, or with structs of
 * other sizes, before it calls anything in it. */
#define EPSIM_PLUGIN_ABI 2

#ifdef __cplusplus
extern "C" {
#endif

/* One option of the scenario: its key, and its value as YAML text. */
struct epsim_option {
  const char* key;
  const char* value;
};

/* Routed assignments (tokens x top-k), MoE layers only, finite and not negative. Valid during the call. */
struct epsim_loads {
  int32_t layers, experts;
  const double* sum;     /* [layer][expert], over the whole window */
  int32_t batches;       /* 0: only the sums are known */
  int64_t batch_stride;  /* floats from one expert's batches to the next one's */
  const float* by_batch; /* [layer][expert][batch]; NULL without batches */
};

/* GPU g is on node g / gpus_per_node. */
struct epsim_shape {
  int32_t gpus, gpus_per_node;
};

/* What a plug-in may ask of epsim during a call. `host` is handed back as the first argument. Both copy what they are
 * given. */
struct epsim_host {
  void* host;
  /* The logical experts in the slots of one GPU in one layer, in slot order; once for each layer and GPU. A GPU that is
   * not mentioned has no slots there. */
  void (*put)(void* host, int32_t layer, int32_t gpu, const int32_t* experts, int32_t count);
  /* Ends the call as an error of the user's input; `key` names the option at fault, "" for none. */
  void (*fail)(void* host, const char* key, const char* problem);
};

/* `abi` stays the first member in every version. No function may throw; create and plan report through fail(). */
struct epsim_plugin {
  uint32_t abi, plugin_size, option_size, loads_size, shape_size, host_size; /* EPSIM_PLUGIN_VERSION */
  const char* name;                                                          /* at most 64 printable characters */
  const char* summary;                                                       /* one sentence */
  /* A policy with these options, or NULL after fail(). An option that the plug-in does not know is an error. */
  void* (*create)(const struct epsim_option* options, int32_t count, const struct epsim_host* host);
  /* Equal inputs must give equal plans: no clock, no unseeded randomness. May be called from several threads at once.
   */
  void (*plan)(const void* policy, const struct epsim_loads* loads, const struct epsim_shape* shape,
               const struct epsim_host* host);
  void (*destroy)(void* policy);
};

/* The first six members. */
#define EPSIM_PLUGIN_VERSION                                                                              \
  EPSIM_PLUGIN_ABI, sizeof(struct epsim_plugin), sizeof(struct epsim_option), sizeof(struct epsim_loads), \
      sizeof(struct epsim_shape), sizeof(struct epsim_host)

/* The one symbol that a plug-in exports: const struct epsim_plugin epsim_plugin_entry. It is data, not a function. */

#ifdef __cplusplus
} /* extern "C" */

#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace epsim::plugin {

// Throw it where an option is wrong; any other exception becomes an error without a key.
struct BadOption : std::invalid_argument {
  BadOption(std::string option, const std::string& problem) : std::invalid_argument(problem), key(std::move(option)) {}
  std::string key;
};

// The options that the scenario gives, each read once by name.
class Options {
 public:
  Options(const epsim_option* options, std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i) {
      given_[options[i].key] = options[i].value;
    }
  }
  std::string text(const std::string& key, const std::string& fallback) {
    read_.insert(key);
    const auto found = given_.find(key);
    return found == given_.end() ? fallback : found->second;
  }
  double number(const std::string& key, double fallback) {
    const std::string value = text(key, "");
    return value.empty() ? fallback : parse<double>(key, value, "a number", [](const std::string& s, std::size_t* end) {
      return std::stod(s, end);
    });
  }
  long long whole(const std::string& key, long long fallback) {
    const std::string value = text(key, "");
    return value.empty() ? fallback
                         : parse<long long>(key, value, "a whole number",
                                            [](const std::string& s, std::size_t* end) { return std::stoll(s, end); });
  }
  bool flag(const std::string& key, bool fallback) {
    const std::string value = text(key, fallback ? "true" : "false");
    if (value != "true" && value != "false") {
      throw BadOption(key, "'" + value + "' is neither true nor false.");
    }
    return value == "true";
  }
  // Throws for an option that nobody read.
  void finish() const {
    for (const auto& [key, value] : given_) {
      if (read_.count(key) == 0) {
        std::string known;
        for (const std::string& name : read_) {
          known += (known.empty() ? "" : ", ") + name;
        }
        throw BadOption(key, "unknown option '" + key + "'; known: " + (known.empty() ? "none" : known) + ".");
      }
    }
  }

 private:
  template <class T, class Convert>
  static T parse(const std::string& key, const std::string& value, const char* what, Convert convert) {
    std::size_t end = 0;
    try {
      const T out = convert(value, &end);
      if (end == value.size()) {
        return out;
      }
    } catch (const std::logic_error&) {
      // not a number, or too large: told below
    }
    throw BadOption(key, "'" + value + "' is not " + what + ".");
  }

  std::map<std::string, std::string> given_;
  std::set<std::string> read_;
};

struct Shape {
  int gpus = 0, gpus_per_node = 0;
  int nodes() const { return gpus / gpus_per_node; }
  int node_of(int gpu) const { return gpu / gpus_per_node; }
};

class Loads {
 public:
  explicit Loads(const epsim_loads& loads) : loads_(loads) {}
  int layers() const { return loads_.layers; }
  int experts() const { return loads_.experts; }
  double load(int layer, int expert) const { return loads_.sum[row(layer, expert)]; }
  std::vector<double> layer(int l) const { return {loads_.sum + row(l, 0), loads_.sum + row(l, 0) + loads_.experts}; }
  int batches() const { return loads_.batches; }
  double batch(int layer, int expert, int batch) const {
    const auto expert_row = static_cast<std::ptrdiff_t>(row(layer, expert));
    return static_cast<double>(loads_.by_batch[expert_row * loads_.batch_stride + batch]);
  }

 private:
  std::size_t row(int layer, int expert) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(loads_.experts) +
           static_cast<std::size_t>(expert);
  }
  epsim_loads loads_;
};

using LayerSlots = std::vector<std::vector<std::int32_t>>;  // [GPU] logical experts in its slots
using Plan = std::vector<LayerSlots>;                       // [layer]

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Plan plan(const Loads& loads, const Shape& shape) const = 0;
};

// No exception may cross the binary interface.
template <class Call>
void guard(const epsim_host* host, Call call) {
  try {
    call();
  } catch (const BadOption& e) {
    host->fail(host->host, e.key.c_str(), e.what());
  } catch (const std::bad_alloc&) {
    host->fail(host->host, "", "it ran out of memory.");
  } catch (const std::exception& e) {
    host->fail(host->host, "", e.what());
  } catch (...) {
    host->fail(host->host, "", "it threw something that is not a std::exception.");
  }
}

template <class T>
void* create(const epsim_option* options, std::int32_t count, const epsim_host* host) {
  Policy* made = nullptr;
  guard(host, [&] {
    Options read(options, count);
    auto policy = std::make_unique<T>(read);
    read.finish();
    made = policy.release();
  });
  return made;
}

inline void plan(const void* policy, const epsim_loads* loads, const epsim_shape* shape, const epsim_host* host) {
  guard(host, [&] {
    const Plan made = static_cast<const Policy*>(policy)->plan(Loads(*loads), Shape{shape->gpus, shape->gpus_per_node});
    for (std::size_t l = 0; l < made.size(); ++l) {
      for (std::size_t g = 0; g < made[l].size(); ++g) {
        host->put(host->host, static_cast<std::int32_t>(l), static_cast<std::int32_t>(g), made[l][g].data(),
                  static_cast<std::int32_t>(made[l][g].size()));
      }
    }
  });
}

inline void destroy(void* policy) { delete static_cast<Policy*>(policy); }

}  // namespace epsim::plugin

// Exports the policy TYPE, which is made from an Options&. Once in a plug-in, outside of any namespace.
#define EPSIM_PLUGIN(TYPE, NAME, SUMMARY)                                                  \
  extern "C" __attribute__((visibility("default"))) const epsim_plugin epsim_plugin_entry; \
  extern "C" const epsim_plugin epsim_plugin_entry = {EPSIM_PLUGIN_VERSION,                \
                                                      NAME,                                \
                                                      SUMMARY,                             \
                                                      &epsim::plugin::create<TYPE>,        \
                                                      &epsim::plugin::plan,                \
                                                      &epsim::plugin::destroy};
#endif /* __cplusplus */

#endif /* EPSIM_PLUGIN_H */
