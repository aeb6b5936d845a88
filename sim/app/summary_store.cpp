#include "sim/app/summary_store.h"

#include <algorithm>

#include "sim/study/store_json.h"

namespace epsim::app {
namespace {

constexpr int kFormat = 1;  // raised when the members below change

}  // namespace

std::string stored_text(const RunSummary& run) {
  nlohmann::json numbers = nlohmann::json::array();
  std::transform(run.numbers.begin(), run.numbers.end(), std::back_inserter(numbers), stored_number);
  return store_text(kFormat, {{"label", run.label}, {"numbers", std::move(numbers)}, {"texts", run.texts}});
}

std::optional<RunSummary> stored_summary(const std::string& text) {
  std::optional<RunSummary> out = read_stored(text, kFormat, [](const nlohmann::json& json) {
    RunSummary run;
    run.label = json.at("label");
    run.numbers.clear();
    for (const nlohmann::json& number : json.at("numbers")) {
      run.numbers.push_back(number_in(number));
    }
    run.texts = json.at("texts");
    return run;
  });
  const std::size_t wanted = metrics().size();
  return out && out->numbers.size() == wanted && out->texts.size() == wanted ? out : std::nullopt;
}

}  // namespace epsim::app
