// A plug-in that is wrong, written against the C half of the interface, as a plug-in in another language would be. What
// is wrong while it is loaded is chosen by a macro; what is wrong in a call, by the option `how`.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "policies/plugin/plugin.h"

#ifdef PLUGIN_UNDEFINED_SYMBOL
extern "C" void a_function_that_nobody_defines();
#endif

namespace {

using Put = std::vector<std::int32_t>;

volatile int* volatile nowhere = nullptr;
volatile int zero = 0;
volatile bool always = true;

void loop() {
  while (always) {
  }
}

int dig(int depth) {  // NOLINT(misc-no-recursion): on purpose
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return always ? dig(depth + 1) + room[0] : 0;
}

void eat() {
  std::vector<std::unique_ptr<char[]>> all;
  while (always) {
    all.emplace_back(new char[std::size_t{256} << 20]);  // taken, and never touched
  }
}

// What is wrong in any call. False where `how` is not of these.
bool go_wrong(const std::string& how, const epsim_host* host) {
  if (how == "segfault") {
    *nowhere = 1;
  } else if (how == "abort") {
    std::abort();
  } else if (how == "divide") {
    std::raise(SIGFPE);
  } else if (how == "loop") {
    loop();
  } else if (how == "exit") {
    std::exit(0);
  } else if (how == "overflow") {
    zero = dig(0);
  } else if (how == "eat") {
    eat();
  } else if (how == "throw") {
    throw std::runtime_error("it threw on purpose.");
  } else if (how == "throw_int") {
    throw 42;
  } else if (how == "no_reason") {
    host->fail(host->host, nullptr, nullptr);
  } else {
    return false;
  }
  return true;
}

struct Broken {
  std::string how, when;
};

[[maybe_unused]] void* create(const epsim_option* options, std::int32_t count, const epsim_host* host) {
  auto* made = new Broken{"", "plan"};
  for (std::int32_t i = 0; i < count; ++i) {
    (std::strcmp(options[i].key, "how") == 0 ? made->how : made->when) = options[i].value;
  }
  if (made->when == "create") {
    const std::int32_t expert = 0;
    if (made->how == "put") {
      host->put(host->host, 0, 0, &expert, 1);
    } else if (made->how == "null") {
      return nullptr;
    } else {
      go_wrong(made->how, host);
    }
  }
  return made;
}

[[maybe_unused]] void plan(const void* policy, const epsim_loads* loads, const epsim_shape* shape,
                           const epsim_host* host) {
  const auto& broken = *static_cast<const Broken*>(policy);
  const std::int32_t last = shape->gpus - 1;
  Put all;
  for (std::int32_t e = 0; e < loads->experts; ++e) {
    all.push_back(e);
  }
  const auto put = [&](std::int32_t layer, std::int32_t gpu, const std::int32_t* experts, std::int32_t count) {
    host->put(host->host, layer, gpu, experts, count);
  };
  const auto size = static_cast<std::int32_t>(all.size());
  static std::int32_t calls = 0;
  if (broken.when == "plan" && go_wrong(broken.how, host)) {
    return;
  }
  if (broken.how == "bad_expert") {
    all.push_back(loads->experts);
    put(0, last, all.data(), size + 1);
  } else if (broken.how == "negative_expert") {
    all[0] = -1;
    put(0, last, all.data(), size);
  } else if (broken.how == "bad_layer") {
    put(loads->layers, last, all.data(), size);
  } else if (broken.how == "bad_gpu") {
    put(0, shape->gpus, all.data(), size);
  } else if (broken.how == "negative_count") {
    put(0, last, all.data(), -1);
  } else if (broken.how == "huge_count") {
    put(0, last, all.data(), INT32_MAX);
  } else if (broken.how == "null_experts") {
    put(0, last, nullptr, size);
  } else if (broken.how == "twice") {
    put(0, last, all.data(), size);
    put(0, last, all.data(), size);
  } else if (broken.how == "incomplete") {
    put(0, last, all.data(), size - 1);
  } else if (broken.how == "nothing") {
  } else if (broken.how == "control") {
    host->fail(host->host, "", "a\nline\x1b[31m of colour");
  } else if (broken.how == "moods") {
    put(0, broken.when == "shared" ? 0 : calls++ % 2, all.data(), size);
  } else if (broken.how == "thread") {
    std::thread(put, 0, last, all.data(), size).join();
  } else {
    put(0, last, all.data(), size);
  }
}

[[maybe_unused]] void destroy(void* policy) {
  const auto* broken = static_cast<Broken*>(policy);
  if (broken->when == "destroy") {
    go_wrong(broken->how, nullptr);
  }
  delete broken;
}

#if defined(PLUGIN_CONSTRUCTOR_CRASHES)
[[maybe_unused]] const int at_load = (std::raise(SIGSEGV), 0);
#elif defined(PLUGIN_CONSTRUCTOR_LOOPS)
[[maybe_unused]] const int at_load = (loop(), 0);
#elif defined(PLUGIN_CONSTRUCTOR_THROWS)
[[maybe_unused]] const int at_load = (throw 42, 0);
#elif defined(PLUGIN_UNDEFINED_SYMBOL)
[[maybe_unused]] const int at_load = (a_function_that_nobody_defines(), 0);
#endif

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
#elif defined(PLUGIN_VERSION_1)
extern "C" __attribute__((visibility("default"))) const epsim_plugin* epsim_plugin_entry(void);
extern "C" const epsim_plugin* epsim_plugin_entry(void) { return nullptr; }
#elif !defined(PLUGIN_NO_ENTRY)
extern "C" __attribute__((visibility("default"))) const epsim_plugin epsim_plugin_entry;
extern "C" const epsim_plugin epsim_plugin_entry = {
#if defined(PLUGIN_WRONG_ABI)
    EPSIM_PLUGIN_ABI + 40,
    sizeof(epsim_plugin),
    sizeof(epsim_option),
    sizeof(epsim_loads),
    sizeof(epsim_shape),
    sizeof(epsim_host),
#elif defined(PLUGIN_WRONG_SIZE)
    EPSIM_PLUGIN_ABI,
    sizeof(epsim_plugin),
    sizeof(epsim_option),
    sizeof(epsim_loads) - 8,
    sizeof(epsim_shape),
    sizeof(epsim_host),
#else
    EPSIM_PLUGIN_VERSION,
#endif
#if defined(PLUGIN_BAD_NAME)
    "a name\nof two lines",
#elif defined(PLUGIN_NULL_NAME)
    nullptr,
#else
    "broken",
#endif
    "Wrong.",
    create,
#if defined(PLUGIN_MISSING_FUNCTION)
    nullptr,
#else
    plan,
#endif
    destroy};
#endif
