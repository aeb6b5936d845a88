// A YAML document as config.cpp holds it: the tree, and where each part of it came from. Private to sim/core.
#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/config.h"

namespace epsim {

struct Config::Document {
  // Who wrote a key: what messages call it, the folder that its relative file names start from, and whether it has
  // lines (an override has none).
  struct Source {
    std::string file;
    std::filesystem::path folder;
    bool has_lines = true;
  };

  Document(const std::string& text, const std::string& name);
  // The file, with the keys of those it extends.
  static std::shared_ptr<Document> read(const std::filesystem::path& file, int depth = 0);

  void set(const std::string& assignment, const std::string& option);
  // Gives `into` what `from`, a part of `base`, has and it lacks; mappings are merged key by key, anything else is
  // taken whole.
  void merge(YAML::Node into, const YAML::Node& from, const std::string& path, const Document& base);
  const Source& source_of(const std::string& path) const;

  YAML::Node root;
  Source own;
  std::map<std::string, Source> elsewhere;      // by dotted path: what did not come from the document itself
  std::map<std::string, std::string> defaults;  // by dotted path: values that were filled in, and their source
  bool recording = false;
  std::map<std::pair<std::string, std::string>, KeyRead> reads;  // by path and variant
  std::vector<std::filesystem::path> files;                      // those it extends, and every one that a key named

 private:
  void come_from(const std::string& path, const Source& source);
};

}  // namespace epsim
