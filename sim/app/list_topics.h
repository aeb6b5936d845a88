// What `epsim list` shows: catalogues as rows, which the text and the JSON both print.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

namespace epsim::app {

// One catalogue. A row is an object with `name`, `summary` and what else is to be told, each a text or a list of texts.
struct ListSection {
  const char *key, *title;  // in the JSON; in the text
  nlohmann::ordered_json rows;
};

struct ListTopic {
  const char* name;
  std::vector<ListSection> (*sections)();
};

std::span<const ListTopic> list_topics();

}  // namespace epsim::app
