// A YAML document as config.cpp holds it: the tree, where each part of it came from, and a record of what was read.
// Private to sim/core.
#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/key.h"

namespace epsim {

struct ConfigDocument {
  // Who wrote a key: what messages call it, the folder that its relative file names start from, and whether it has
  // lines (an override has none).
  struct Source {
    std::string file;
    std::filesystem::path folder;
    bool has_lines = true;
    std::string key = {};  // what messages call it; empty: its path
  };

  ConfigDocument(const std::string& text, const std::string& name, bool size_is_known = false);
  // The file, with the keys of those it extends.
  static std::shared_ptr<ConfigDocument> read(const std::filesystem::path& file, int depth = 0);

  void set(const std::string& assignment, const std::string& option);
  // Gives `into` what `from`, a part of `base`, has and it lacks; mappings are merged key by key unless `into`'s names
  // another `kind`, anything else is taken whole. A key without a value in `into` goes.
  void merge(YAML::Node into, const YAML::Node& from, const std::string& path, const ConfigDocument& base);
  static bool stands_alone(const YAML::Node& mine, const YAML::Node& from);
  const Source& source_of(const std::string& path) const;
  // `elsewhere`'s entry for the path or the nearest part above it; null: the document's own.
  const std::pair<const std::string, Source>* moved_part(const std::string& path) const;
  // Config::with_overrides(), record_overrides().
  void override_section(const std::string& name, const std::string& path, const YAML::Node& with,
                        const ConfigDocument& original);
  // One section, and the mapping at a dotted path, with the defaults that were read; a section that nobody
  // wrote or read is empty.
  YAML::Node resolved_section(const std::string& name) const;
  YAML::Node resolved_mapping(const std::vector<std::string>& path) const;
  // Notes that a reader took `value` for a key that the section at `path` lacks. The first note of a key counts.
  void note_default(const std::string& path, const std::string& key, const YAML::Node& value,
                    const std::string& source = "");
  // The document and the record, as YAML. See Config::resolved().
  std::string resolved() const;

  // A value that a reader took where the document has none. A section that is absent is an empty mapping.
  struct Default {
    std::string key;
    YAML::Node value;
    std::string source;
  };

  YAML::Node root;  // as written, with overrides: readers leave it alone
  Source own;
  std::map<std::string, Source> elsewhere;  // by dotted path: what did not come from the document itself
  // The record of what was read, by dotted path: defaults of each section in the order of reading, defaults that one
  // reader sets for another, and absolute file names.
  std::map<std::string, std::vector<Default>> defaults;
  std::map<std::string, YAML::Node> presets;
  std::map<std::string, std::string> absolute_paths;
  std::vector<std::filesystem::path> files;  // those it extends, and every one that a key named
  // By dotted path: what resolved() gives there instead (record_overrides).
  std::map<std::string, YAML::Node> recorded;

 private:
  void come_from(const std::string& path, const Source& source);
  void put_over(YAML::Node into, const YAML::Node& with, const std::string& path, const std::string& from,
                const ConfigDocument& original);
  YAML::Node with_defaults(const YAML::Node& node, const std::string& path) const;
};

// A mapping, its place in the document and the keys read so far. Children are kept so that finish() reaches them.
struct ConfigSection {
  static constexpr const char* kNotMapping = "this must be a mapping of keys to values.";
  static constexpr const char* kNotList = "this must be a list.";

  std::shared_ptr<ConfigDocument> document;
  YAML::Node yaml;
  std::string path;
  std::set<std::string> read;
  std::vector<std::shared_ptr<ConfigSection>> children;
  std::set<std::string> handed_on = {};  // keys that rest() gave out

  std::string full(const std::string& key) const { return path.empty() ? key : path + "." + key; }
  // The reader's node of a section: the same one each time, so that it knows all keys that were read.
  std::shared_ptr<ConfigSection> child(const std::string& child_path, const YAML::Node& child_yaml) {
    for (const std::shared_ptr<ConfigSection>& known : children) {
      if (known->path == child_path) {
        return known;
      }
    }
    children.push_back(std::make_shared<ConfigSection>(ConfigSection{document, child_yaml, child_path, {}, {}}));
    return children.back();
  }
  YAML::Node find(const std::string& key) const {
    return yaml.IsMap() ? static_cast<const YAML::Node&>(yaml)[key] : YAML::Node(YAML::NodeType::Undefined);
  }
};

}  // namespace epsim
