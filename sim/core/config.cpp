#include "sim/core/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/core/config_convert.h"
#include "sim/core/config_document.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"

namespace epsim {
Config Config::from_file(const std::filesystem::path& file) { return Config(ConfigDocument::read(file)); }

Config Config::from_text(const std::string& text, const std::string& name) {
  return Config(std::make_shared<ConfigDocument>(text, name));
}

Config Config::from_own_text(std::string_view text, const std::string& name) {
  return Config(std::make_shared<ConfigDocument>(std::string(text), name, true));
}

void Config::set(const std::vector<std::string>& assignments, const std::string& option) {
  for (const std::string& assignment : assignments) {
    set(assignment, option);
  }
}

void Config::set(const std::string& assignment, const std::string& option) { document_->set(assignment, option); }

void refuse_repeated(const std::vector<std::string>& assignments) {
  std::set<std::string> keys;
  for (const std::string& assignment : assignments) {
    const std::string key = assignment.substr(0, assignment.find('='));
    refuse_if(!keys.insert(key).second, {"--set " + assignment, 0, key}, "this key is set twice; set it once.");
  }
}

void Config::extend(const Config& base) {
  document_->root.remove("extends");
  document_->merge(document_->root, base.document_->root, "", *base.document_);
}

Config Config::clone() const {
  auto document = std::make_shared<ConfigDocument>(*document_);
  document->root.reset(YAML::Clone(document_->root));  // an assignment would turn the original into the copy
  return Config(std::move(document));
}

Config Config::with_overrides(const std::vector<std::string>& path, std::span<const std::string_view> sections,
                              std::span<const std::string_view> kept) const {
  Config out = clone();
  ConfigDocument& document = *out.document_;
  const auto forget = [&](auto& record) {
    std::erase_if(record, [&](const auto& entry) {
      const std::string top = entry.first.substr(0, entry.first.find_first_of(".["));
      return std::find(kept.begin(), kept.end(), top) == kept.end();
    });
  };
  forget(document.defaults);
  forget(document.presets);
  YAML::Node mine = document.root, written = document_->root;
  const YAML::Node& original = written;  // a lookup through it adds nothing
  std::string full;
  for (const std::string& part : path) {
    mine.reset(mine[part]);
    written.reset(original[part]);
    full += (full.empty() ? "" : ".") + part;
  }
  for (const std::string_view section : sections) {
    const std::string name(section);
    if (const YAML::Node with = original[name]; with.IsDefined()) {
      if (with.IsMap()) {
        document.override_section(name, full + "." + name, with, *document_);
      }
      mine.remove(name);
    }
  }
  return out;
}

void Config::record_overrides(const std::vector<std::string>& path, std::span<const std::string_view> sections,
                              const Config& other) {
  YAML::Node entry = other.document_->resolved_mapping(path);
  for (const std::string_view section : sections) {
    const std::string name(section);
    const YAML::Node mine = document_->resolved_section(name), theirs = other.document_->resolved_section(name);
    std::map<std::string, YAML::Node> whole;  // by name: the order must not tell which document the keys were in
    const YAML::Node engine = mine["engine"], other_engine = theirs["engine"];
    const bool alone = engine.IsDefined() && other_engine.IsDefined() && engine.Scalar() != other_engine.Scalar();
    for (const auto& key : alone ? theirs : mine) {
      whole[key.first.Scalar()] = YAML::Node(YAML::NodeType::Null);
    }
    for (const auto& key : theirs) {
      whole[key.first.Scalar()] = key.second;
    }
    YAML::Node section_of(YAML::NodeType::Map);
    for (const auto& [key, value] : whole) {
      section_of.force_insert(key, value);
    }
    entry[name] = section_of;
  }
  document_->recorded[fmt::format("{}", fmt::join(path, "."))] = entry;
  for (const std::filesystem::path& file : other.files()) {
    if (std::find(document_->files.begin(), document_->files.end(), file) == document_->files.end()) {
      document_->files.push_back(file);
    }
  }
}

ConfigReader Config::root() const {
  auto node = std::make_shared<ConfigSection>();
  node->document = document_;
  node->yaml = document_->root;
  return ConfigReader(std::move(node));
}

std::string Config::resolved() const { return document_->resolved(); }

std::vector<std::filesystem::path> Config::files() const { return document_->files; }

ConfigReader::ConfigReader(std::shared_ptr<ConfigSection> node) : node_(std::move(node)) {}
ConfigReader::ConfigReader(const ConfigReader&) = default;
ConfigReader& ConfigReader::operator=(const ConfigReader&) = default;
ConfigReader::~ConfigReader() = default;

InputPlace ConfigReader::place(const std::string& key) const {
  InputPlace at{"", 0, key.empty() ? node_->path : node_->full(key)};
  const auto* moved = node_->document->moved_part(at.key);
  const ConfigDocument::Source& source = moved != nullptr ? moved->second : node_->document->own;
  at.file = source.file;
  if (moved != nullptr && !source.key.empty()) {
    at.key = source.key + at.key.substr(moved->first.size());
  }
  if (!source.has_lines) {
    return at;
  }
  const YAML::Node found = node_->find(key);
  const YAML::Node& where = found.IsDefined() ? found : node_->yaml;
  if (where.Mark().line >= 0) {
    at.line = where.Mark().line + 1;
  }
  return at;
}

InputError ConfigReader::unknown_key(const std::string& key, const std::vector<std::string>& known) const {
  const InputPlace at = place(key);
  const std::string& own = node_->document->own.file;
  const bool inherited =
      node_->document->own.has_lines && at.line > 0 && at.file != own && at.key.find('[') == std::string::npos;
  return {at, unknown_name("key", key, known) +
                  (inherited ? fmt::format(" It is inherited through `extends`; `{}:` with no value in {} drops it.",
                                           at.key, own)
                             : "")};
}

void ConfigReader::fail(const std::string& key, const std::string& problem) const {
  throw InputError(place(key), problem);
}

void ConfigReader::check(bool condition, const std::string& key, const std::string& problem) const {
  if (!condition) {
    fail(key, problem);
  }
}

bool ConfigReader::has(const std::string& key) const {
  const YAML::Node found = node_->find(key);
  return found.IsDefined() && !found.IsNull();
}

bool ConfigReader::is_section(const std::string& key) const {
  const YAML::Node found = node_->find(key);
  return found.IsDefined() && found.IsMap();
}

std::vector<std::pair<std::string, std::string>> ConfigReader::rest() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& key : keys()) {
    if (!node_->read.insert(key).second && !node_->handed_on.contains(key)) {
      continue;
    }
    node_->handed_on.insert(key);
    const YAML::Node value = node_->find(key);
    out.emplace_back(key, yaml::text_of(value));
  }
  return out;
}

void ConfigReader::pass_over() {
  node_->children.clear();
  rest();
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> out;
  for (const auto& entry : node_->yaml) {
    out.push_back(entry.first.as<std::string>());
  }
  return out;
}

std::string ConfigReader::missing(const std::string& key, const std::vector<std::string>& candidates) const {
  const std::optional<std::string> meant = misspelling(key, candidates);
  if (!meant) {
    return "this key is required and missing.";
  }
  const int line = place(*meant).line;
  return fmt::format("this key is required and missing; {} has '{}'.",
                     line > 0 ? fmt::format("line {}", line) : "an override", *meant);
}

namespace {

std::filesystem::path absolute_name(const std::filesystem::path& of) {
  return std::filesystem::absolute(of).lexically_normal();
}

}  // namespace

std::optional<std::filesystem::path> ConfigReader::maybe_path(const std::string& key) {
  const std::optional<std::string> text = get<std::string>(key, Bound::kNotNegative);
  if (!text) {
    return std::nullopt;
  }
  check(!text->empty(), key, "a file name is empty.");
  std::filesystem::path file(*text);
  if (file.is_relative()) {
    file = node_->document->source_of(node_->full(key)).folder / file;
    if (std::error_code none; !std::filesystem::exists(file, none)) {
      const std::filesystem::path shipped = shipped_file(*text);
      file = std::filesystem::exists(shipped, none) ? shipped : file;
    }
  }
  file = file.lexically_normal();
  note_file(file);
  node_->document->absolute_paths[node_->full(key)] = absolute_name(file).string();  // the echo runs from anywhere
  return file;
}

void ConfigReader::note_file(const std::filesystem::path& file) {
  std::vector<std::filesystem::path>& files = node_->document->files;
  if (std::none_of(files.begin(), files.end(),
                   [&](const auto& known) { return absolute_name(known) == absolute_name(file); })) {
    files.push_back(file);
  }
}

std::filesystem::path ConfigReader::path(const std::string& key) {
  std::optional<std::filesystem::path> file = maybe_path(key);
  if (!file) {
    fail(key, missing(key, unread_keys()));
  }
  return *std::move(file);
}

ConfigReader ConfigReader::section(const std::string& key) {
  node_->read.insert(key);
  const YAML::Node found = node_->find(key);
  check(!found.IsDefined() || found.IsNull() || found.IsMap(), key, ConfigSection::kNotMapping);
  const bool absent = !found.IsDefined() || found.IsNull();
  const YAML::Node section = absent ? YAML::Node(YAML::NodeType::Map) : found;
  if (absent) {
    node_->document->note_default(node_->path, key, section);
  }
  return ConfigReader(node_->child(node_->full(key), section));
}

ConfigReader ConfigReader::required_section(const std::string& key) {
  if (!has(key)) {
    fail(key, missing(key, unread_keys()));
  }
  return section(key);
}

std::vector<ConfigReader> ConfigReader::list_of_sections(const std::string& key) {
  node_->read.insert(key);
  std::vector<ConfigReader> out;
  if (!has(key)) {
    return out;
  }
  const YAML::Node list = node_->find(key);
  check(list.IsSequence(), key, ConfigSection::kNotList);
  for (std::size_t i = 0; i < list.size(); ++i) {
    check(list[i].IsMap(), key, fmt::format("item {} must be a mapping of keys to values.", i + 1));
    out.push_back(ConfigReader(node_->child(fmt::format("{}[{}]", node_->full(key), i), list[i])));
  }
  return out;
}

std::filesystem::path ConfigReader::path(const Key& key) { return path(std::string(key.name)); }

std::optional<std::filesystem::path> ConfigReader::maybe_path(const Key& key) {
  return maybe_path(std::string(key.name));
}

ConfigReader ConfigReader::section(const Key& key) {
  const bool required = key.fallback.kind == key::Fallback::Kind::kRequired;
  return required ? required_section(std::string(key.name)) : section(std::string(key.name));
}

std::vector<ConfigReader> ConfigReader::list_of_sections(const Key& key) {
  return list_of_sections(std::string(key.name));
}

std::vector<std::string> ConfigReader::unread_keys() const {
  std::vector<std::string> out = keys();
  std::erase_if(out, [&](const std::string& key) { return node_->read.contains(key); });
  return out;
}

std::vector<InputError> ConfigReader::unread() const {
  std::vector<InputError> out;
  for (const std::string& key : unread_keys()) {
    const std::vector<std::string> known(node_->read.begin(), node_->read.end());
    out.push_back(unknown_key(key, known));
  }
  for (const auto& child : node_->children) {
    const std::vector<InputError> below = ConfigReader(child).unread();
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

void ConfigReader::finish() const { throw_all(unread()); }

}  // namespace epsim
