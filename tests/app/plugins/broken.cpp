// A plug-in that is wrong in one way, chosen by a macro; written against the C half of the interface, as a plug-in in
// another language would be.
#include "policies/plugin/plugin.h"

#ifdef PLUGIN_UNDEFINED_SYMBOL
extern "C" void a_function_that_nobody_defines();
#endif

namespace {

[[maybe_unused]] int a_policy = 0;

[[maybe_unused]] void* create(const epsim_option*, std::int32_t, const epsim_host*) {
#ifdef PLUGIN_NO_REASON
  return nullptr;
#else
  return &a_policy;
#endif
}

[[maybe_unused]] void plan(const void*, const epsim_loads* loads, const epsim_shape* shape, const epsim_host* host) {
  std::vector<std::int32_t> all;
  for (std::int32_t e = 0; e < loads->experts; ++e) {
    all.push_back(e);
  }
  [[maybe_unused]] const std::int32_t gpu = shape->gpus - 1;
#if defined(PLUGIN_BAD_EXPERT)
  all.push_back(loads->experts);
  host->put(host->host, 0, gpu, all.data(), static_cast<std::int32_t>(all.size()));
#elif defined(PLUGIN_BAD_LAYER)
  host->put(host->host, loads->layers, gpu, all.data(), static_cast<std::int32_t>(all.size()));
#elif defined(PLUGIN_TWICE)
  host->put(host->host, 0, gpu, all.data(), 1);
  host->put(host->host, 0, gpu, all.data(), 1);
#elif defined(PLUGIN_INCOMPLETE)
  host->put(host->host, 0, gpu, all.data(), static_cast<std::int32_t>(all.size()) - 1);
#elif defined(PLUGIN_UNDEFINED_SYMBOL)
  a_function_that_nobody_defines();
  host->put(host->host, 0, gpu, all.data(), 1);
#else
  host->fail(host->host, "", "this plug-in makes no plan.");
#endif
}

[[maybe_unused]] void destroy(void*) {}

#ifdef PLUGIN_THROWS
class Throws final : public epsim::plugin::Policy {
 public:
  explicit Throws(epsim::plugin::Options&) {}
  epsim::plugin::Plan plan(const epsim::plugin::Loads&, const epsim::plugin::Shape&) const override {
    throw std::runtime_error("it threw on purpose.");
  }
};
#endif

}  // namespace

#if defined(PLUGIN_THROWS)
EPSIM_PLUGIN(Throws, "throws", "A plug-in that throws.")
#elif !defined(PLUGIN_NO_ENTRY)
extern "C" __attribute__((visibility("default"))) const epsim_plugin* epsim_plugin_entry(void);
extern "C" const epsim_plugin* epsim_plugin_entry(void) {
#if defined(PLUGIN_NULL_ENTRY)
  return nullptr;
#elif defined(PLUGIN_WRONG_ABI)
  static const epsim_plugin entry = {EPSIM_PLUGIN_ABI + 41, "broken", "Wrong.", create, plan, destroy};
  return &entry;
#elif defined(PLUGIN_MISSING_FUNCTION)
  static const epsim_plugin entry = {EPSIM_PLUGIN_ABI, "broken", "Wrong.", create, nullptr, destroy};
  return &entry;
#else
  static const epsim_plugin entry = {EPSIM_PLUGIN_ABI, "broken", "Wrong.", create, plan, destroy};
  return &entry;
#endif
}
#endif
