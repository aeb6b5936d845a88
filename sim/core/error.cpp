#include "sim/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace epsim {
namespace {

constexpr std::size_t kNamed = 40;  // of what is known; the links of a cluster are hundreds

std::string describe(const InputPlace& at, const std::string& problem) {
  std::string where = at.file;
  if (at.line > 0) {
    where += fmt::format(":{}", at.line);
  }
  if (!where.empty()) {
    where += ": ";
  }
  if (!at.key.empty()) {
    where += fmt::format("`{}`: ", at.key);
  }
  return where + problem;
}

std::string describe(const std::vector<InputError>& errors) {
  std::string out = fmt::format("{} errors:", errors.size());
  for (const InputError& error : errors) {
    out += fmt::format("\n  {}", error.what());
  }
  return out;
}

std::string describe_misfit(int gpu, Bytes need, Bytes have, const std::string& what, bool copies) {
  return fmt::format("GPU {} cannot hold {}: it needs {:.3f} GiB and has {:.3f} GiB. {} make room.", gpu, what,
                     to_gib(need), to_gib(have), copies ? "Fewer copies or more GPUs" : "More GPUs");
}

}  // namespace

InputError::InputError(InputPlace at, const std::string& what_is_wrong)
    : std::runtime_error(describe(at, what_is_wrong)), place(std::move(at)), problem(what_is_wrong) {}

InputError::InputError(const std::string& text, InputPlace at, const std::string& what_is_wrong)
    : std::runtime_error(text), place(std::move(at)), problem(what_is_wrong) {}

InputErrors::InputErrors(std::vector<InputError> errors)
    : InputError(describe(errors), errors.at(0).place, errors.at(0).problem), all(std::move(errors)) {}

void throw_all(std::vector<InputError> errors) {
  if (errors.size() == 1) {
    throw errors.front();
  }
  if (!errors.empty()) {
    throw InputErrors(std::move(errors));
  }
}

DoesNotFit::DoesNotFit(int gpu_index, Bytes needed, Bytes available, const std::string& what, bool copies)
    : InputError({}, describe_misfit(gpu_index, needed, available, what, copies)),
      gpu(gpu_index),
      need(needed),
      have(available) {}

DoesNotFit::DoesNotFit(const DoesNotFit& misfit, const std::string& more)
    : InputError(misfit.place, misfit.problem + more), gpu(misfit.gpu), need(misfit.need), have(misfit.have) {}

std::optional<std::string> misspelling(const std::string& given, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  int least = 3;
  for (const std::string& name : known) {
    const int edits = edit_distance(given, name);
    if (edits < least && edits + 1 < static_cast<int>(std::min(given.size(), name.size()))) {
      least = edits;
      best = name;
    }
  }
  return best;
}

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string unknown_name(const std::string& kind, const std::string& given, const std::vector<std::string>& known) {
  if (known.empty()) {
    return fmt::format("unknown {} '{}'; none is allowed here.", kind, given);
  }
  // A name cut short is near to what it begins.
  const auto distance = [&](const std::string& name) {
    const std::string start = name.substr(0, given.size());
    const bool begun = std::equal(start.begin(), start.end(), given.begin(), given.end(), [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    });
    return begun && given.size() > 2 ? 0 : edit_distance(given, name);
  };
  std::vector<std::string> sorted = known;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
  const std::size_t named = std::min(sorted.size(), kNamed);
  const std::string more = named < sorted.size() ? fmt::format(" and {} more", sorted.size() - named) : "";
  sorted.resize(named);
  return fmt::format("unknown {} '{}'. Known, the nearest first: {}{}.", kind, given, fmt::join(sorted, ", "), more);
}

}  // namespace epsim
