#include "policies/plugin/plugin_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "sim/core/error.h"
#include "sim/core/input_file.h"

namespace epsim {

namespace {

// The plug-in that the thread is inside of, for the crash line; a signal handler can reach nothing else.
thread_local const char* t_inside = nullptr;
std::atomic<bool> g_reported = false;
constexpr int kBadInput = 2;  // the exit code
constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

void say(const char* text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); }

void say_end(const char* how) {
  say("epsim: plug-in '");
  say(t_inside);
  say(how);
  say(" and ends epsim; with `isolate: true` it runs in its own process.\n");
}

extern "C" void on_crash(int signal) {
  if (t_inside != nullptr) {
    say_end("' crashed");
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// exit() in a plug-in must not pass for the end of a run: its code could be 0.
void on_exit_inside() {
  if (t_inside != nullptr && g_reported) {
    say_end("' called exit()");
    std::_Exit(kBadInput);
  }
}

// A thread whose stack is full has no room for on_crash.
void give_crash_stack() {
  thread_local std::array<char, std::size_t{64} << 10> room;
  stack_t now{};
  if (sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE) != 0) {
    const stack_t crash = {room.data(), 0, room.size()};
    sigaltstack(&crash, nullptr);
  }
}

// While it lives a crash is the plug-in's.
class Inside {
 public:
  explicit Inside(const char* name) {
    give_crash_stack();
    t_inside = name;
  }
  ~Inside() { t_inside = nullptr; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

// Runs one call into the plug-in: no exception of it, of whatever type, gets further than here.
template <class Call>
void inside(const char* name, const char* what, Call call) {
  const Inside here(name);
  try {
    call();
  } catch (const std::exception& e) {
    throw PluginProblem{"", fmt::format("it threw an exception out of {}: {}", what, plugin_text(e.what()))};
  } catch (...) {
    throw PluginProblem{"", fmt::format("it threw an exception out of {} that is not a std::exception.", what)};
  }
}

// A shared object whose end is missing would be mapped and end the process by SIGBUS.
void check_segments(const std::filesystem::path& file) {
  const InputFileHandle in(file);
  const auto read_at = [&](void* to, std::size_t size, std::uint64_t offset) {
    return pread(in.descriptor(), to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  };
  Elf64_Ehdr head{};
  if (!read_at(&head, sizeof head, 0) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64) {
    throw PluginProblem{"", "it cannot be loaded: it is not a 64-bit ELF shared object."};
  }
  for (int i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const std::uint64_t at = head.e_phoff + static_cast<std::uint64_t>(i) * sizeof segment;
    std::uint64_t end = 0;
    if (at < head.e_phoff || !read_at(&segment, sizeof segment, at) ||
        (segment.p_type == PT_LOAD && (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &end) ||
                                       end > static_cast<std::uint64_t>(in.bytes())))) {
      throw PluginProblem{"", "it cannot be loaded: the file is cut off."};
    }
  }
}

void check_sizes(const epsim_plugin& entry) {
  const struct {
    const char* name;
    std::uint32_t theirs;
    std::size_t ours;
  } structs[] = {{"epsim_plugin", entry.plugin_size, sizeof(epsim_plugin)},
                 {"epsim_option", entry.option_size, sizeof(epsim_option)},
                 {"epsim_loads", entry.loads_size, sizeof(epsim_loads)},
                 {"epsim_shape", entry.shape_size, sizeof(epsim_shape)},
                 {"epsim_host", entry.host_size, sizeof(epsim_host)}};
  for (const auto& each : structs) {
    if (each.theirs != each.ours) {
      throw PluginProblem{"",
                          fmt::format("it has a struct {} of {} bytes, and this epsim's has {}; build it again with "
                                      "this epsim's headers.",
                                      each.name, each.theirs, each.ours)};
    }
  }
}

// The window's own arrays: rows lie one after the other.
epsim_loads view(const LoadWindow& load) {
  epsim_loads out = {load.layers(), load.experts(), load.layer(0).data(), load.batches(), 0, nullptr};
  if (load.batches() > 0) {
    out.by_batch = load.batches_of(0, 0).data();
    out.batch_stride = load.experts() > 1  ? load.batches_of(0, 1).data() - out.by_batch
                       : load.layers() > 1 ? load.batches_of(1, 0).data() - out.by_batch
                                           : load.batches();
  }
  return out;
}

}  // namespace

void report_plugin_crashes(bool wanted) {
  static const int at_exit = std::atexit(on_exit_inside);
  static_cast<void>(at_exit);
  g_reported = wanted;
  for (const int signal : kCrashes) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    const bool free = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
    if (!wanted || free) {  // a debugger's, a sanitizer's or Python's own handler stays
      struct sigaction next {};
      next.sa_handler = wanted ? on_crash : SIG_DFL;
      next.sa_flags = SA_ONSTACK;
      sigaction(signal, &next, nullptr);
    }
  }
}

LoadedPlugin::LoadedPlugin(const std::filesystem::path& file, const PluginOptions& options) {
  check_segments(file);
  // An absolute name: dlopen searches its own folders for others. NOW: a missing symbol shows here, not in mid-run.
  const std::string absolute = std::filesystem::absolute(file).string();
  {
    const Inside here(file.c_str());
    // noexcept: an exception out of an initialiser would leave the loader's lock held. It is a crash in every build.
    [&]() noexcept { handle_ = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL); }();
  }
  if (handle_ == nullptr) {
    const std::string why = plugin_text(dlerror()), own = absolute + ": ";
    throw PluginProblem{"", fmt::format("it cannot be loaded: {}.", why.substr(why.starts_with(own) ? own.size() : 0))};
  }
  try {
    find_entry();
    create(options);
  } catch (...) {
    dlclose(handle_);
    throw;
  }
}

LoadedPlugin::~LoadedPlugin() {
  try {
    inside(name_.c_str(), "destroy()", [&] { entry_->destroy(policy_); });
  } catch (const PluginProblem& problem) {
    say(fmt::format("epsim: plug-in '{}': {}\n", name_, problem.text).c_str());
  }
  dlclose(handle_);
}

void LoadedPlugin::find_entry() {
  void* symbol = dlsym(handle_, "epsim_plugin_entry");
  if (symbol == nullptr) {
    throw PluginProblem{
        "",
        "it does not define epsim_plugin_entry, as EPSIM_PLUGIN in epsim/plugin.h does, so it is not an "
        "epsim plug-in."};
  }
  Dl_info about{};
  void* extra = nullptr;
  const bool known = dladdr1(symbol, &about, &extra, RTLD_DL_SYMENT) != 0;
  const auto* in_table = static_cast<const ElfW(Sym)*>(extra);
  const bool data = known && in_table != nullptr && ELF64_ST_TYPE(in_table->st_info) == STT_OBJECT;
  entry_ = static_cast<const epsim_plugin*>(symbol);
  // Version 1 exported a function of this name.
  const std::uint32_t abi = data && in_table->st_size >= sizeof entry_->abi ? entry_->abi : 1;
  if (abi != EPSIM_PLUGIN_ABI) {
    throw PluginProblem{"", fmt::format("it was built for version {} of the plug-in interface, and this epsim has "
                                        "version {}; build it again with this epsim's headers.",
                                        abi, EPSIM_PLUGIN_ABI)};
  }
  if (in_table->st_size != sizeof(epsim_plugin)) {
    throw PluginProblem{"", fmt::format("it has an epsim_plugin_entry of {} bytes, and this epsim's has {}; build it "
                                        "again with this epsim's headers.",
                                        in_table->st_size, sizeof(epsim_plugin))};
  }
  check_sizes(*entry_);
  if (entry_->create == nullptr || entry_->plan == nullptr || entry_->destroy == nullptr || entry_->name == nullptr) {
    throw PluginProblem{"", "it leaves out a function or its name."};
  }
  constexpr std::size_t kLongest = 64;
  const std::size_t length = strnlen(entry_->name, kLongest + 1);
  name_.assign(entry_->name, length);
  if (length == 0 || length > kLongest ||
      !std::all_of(name_.begin(), name_.end(), [](char c) { return c > ' ' && c < '\x7f'; })) {
    throw PluginProblem{"", fmt::format("its name is not 1 to {} printable ASCII characters.", kLongest)};
  }
}

void LoadedPlugin::create(const PluginOptions& options) {
  std::vector<epsim_option> list;
  for (const auto& [key, value] : options) {
    list.push_back({key.c_str(), value.c_str()});
  }
  PluginAnswer answer;
  const epsim_host host = answer.host();
  inside(name_.c_str(), "create()",
         [&] { policy_ = entry_->create(list.data(), static_cast<std::int32_t>(list.size()), &host); });
  try {
    answer.check();
  } catch (const PluginProblem&) {
    if (policy_ != nullptr) {
      inside(name_.c_str(), "destroy()", [&] { entry_->destroy(policy_); });
    }
    throw;
  }
  if (policy_ == nullptr) {
    throw PluginProblem{"", "its create() returned no policy and gave no reason."};
  }
}

void LoadedPlugin::plan(const LoadWindow& load, const ClusterShape& shape, PluginAnswer& answer) const {
  const epsim_host host = answer.host();
  const epsim_loads loads = view(load);
  const epsim_shape asked = {shape.gpus, shape.gpus_per_node};
  inside(name_.c_str(), "plan()", [&] { entry_->plan(policy_, &loads, &asked, &host); });
  answer.check();
}

}  // namespace epsim
