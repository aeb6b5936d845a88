#include "sim/core/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/core/config_convert.h"
#include "sim/core/config_document.h"

namespace epsim {

// A mapping, its place in the document and the keys read so far. Children are kept so that finish() reaches them.
struct ConfigReader::Node {
  std::shared_ptr<Config::Document> document;
  YAML::Node yaml;
  std::string path;
  std::set<std::string> read;
  std::vector<std::shared_ptr<Node>> children;
  std::set<std::string> handed_on = {};  // keys that rest() gave out

  std::string full(const std::string& key) const { return path.empty() ? key : path + "." + key; }
  // The reader's node of a section: the same one each time, so that it knows all keys that were read.
  std::shared_ptr<Node> child(const std::string& child_path, const YAML::Node& child_yaml) {
    for (const std::shared_ptr<Node>& known : children) {
      if (known->path == child_path) {
        return known;
      }
    }
    children.push_back(std::make_shared<Node>(Node{document, child_yaml, child_path, {}, {}}));
    return children.back();
  }
  YAML::Node find(const std::string& key) const {
    return yaml.IsMap() ? static_cast<const YAML::Node&>(yaml)[key] : YAML::Node(YAML::NodeType::Undefined);
  }
};

Config Config::from_file(const std::filesystem::path& file) { return Config(Document::read(file)); }

Config Config::from_text(const std::string& text, const std::string& name) {
  return Config(std::make_shared<Document>(text, name));
}

void Config::set(const std::string& assignment, const std::string& option) { document_->set(assignment, option); }

void Config::extend(Config base) {
  document_->root.remove("extends");
  document_->merge(document_->root, base.document_->root, "", *base.document_);
}

ConfigReader Config::root() const {
  auto node = std::make_shared<ConfigReader::Node>();
  node->document = document_;
  node->yaml = document_->root;
  return ConfigReader(std::move(node));
}

std::string Config::resolved() const {
  YAML::Emitter out;
  out << document_->root;
  return std::string(out.c_str()) + "\n";
}

std::vector<std::filesystem::path> Config::files() const { return document_->files; }

ConfigReader::ConfigReader(std::shared_ptr<Node> node) : node_(std::move(node)) {}
ConfigReader::ConfigReader(const ConfigReader&) = default;
ConfigReader& ConfigReader::operator=(const ConfigReader&) = default;
ConfigReader::~ConfigReader() = default;

InputPlace ConfigReader::place(const std::string& key) const {
  InputPlace at{"", 0, key.empty() ? node_->path : node_->full(key)};
  const Config::Document::Source& source = node_->document->source_of(at.key);
  at.file = source.file;
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
    YAML::Emitter text;
    text << value;
    out.emplace_back(key, value.IsScalar() ? value.Scalar() : value.IsNull() ? "" : text.c_str());
  }
  return out;
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> out;
  for (const auto& entry : node_->yaml) {
    out.push_back(entry.first.as<std::string>());
  }
  return out;
}

template <class T>
std::optional<T> ConfigReader::maybe(const std::string& key, Bound bound) {
  node_->read.insert(key);
  if (!has(key)) {
    return std::nullopt;
  }
  try {
    return yaml::Convert<T>::read(node_->find(key), bound);
  } catch (const std::invalid_argument& e) {
    fail(key, e.what());
  }
}

template <class T>
T ConfigReader::required(const std::string& key, Bound bound) {
  std::optional<T> value = maybe<T>(key, bound);
  check(value.has_value(), key, "this key is required and missing.");
  return *std::move(value);
}

template <class T>
T ConfigReader::optional(const std::string& key, T fallback, Bound bound) {
  std::optional<T> value = maybe<T>(key, bound);
  if (value) {
    return *std::move(value);
  }
  node_->yaml[key] = yaml::Convert<T>::write(fallback);  // the echo shows defaults too
  return fallback;
}

std::string ConfigReader::choice(const std::string& key, const std::vector<std::string>& allowed,
                                 const std::optional<std::string>& fallback) {
  std::string value = fallback ? optional<std::string>(key, *fallback) : required<std::string>(key);
  for (const std::string& name : allowed) {
    if (value == name) {
      return value;
    }
  }
  fail(key, unknown_name("value", value, allowed));
}

std::optional<std::filesystem::path> ConfigReader::maybe_path(const std::string& key) {
  const std::optional<std::string> text = maybe<std::string>(key);
  if (!text) {
    return std::nullopt;
  }
  check(!text->empty(), key, "a file name is empty.");
  std::filesystem::path file(*text);
  if (file.is_relative()) {
    file = node_->document->source_of(node_->full(key)).folder / file;
  }
  file = file.lexically_normal();
  const auto absolute = [](const std::filesystem::path& of) {
    return std::filesystem::absolute(of).lexically_normal();
  };
  std::vector<std::filesystem::path>& files = node_->document->files;
  if (std::none_of(files.begin(), files.end(), [&](const auto& known) { return absolute(known) == absolute(file); })) {
    files.push_back(file);
  }
  node_->yaml[key] = absolute(file).string();  // the echo can be run from anywhere; a second look finds it there
  return file;
}

std::filesystem::path ConfigReader::path(const std::string& key) {
  std::optional<std::filesystem::path> file = maybe_path(key);
  check(file.has_value(), key, "this key is required and missing: it names a file.");
  return *std::move(file);
}

ConfigReader ConfigReader::section(const std::string& key) {
  node_->read.insert(key);
  const YAML::Node found = node_->find(key);
  check(!found.IsDefined() || found.IsNull() || found.IsMap(), key, "this must be a mapping of keys to values.");
  if (!found.IsDefined() || found.IsNull()) {
    node_->yaml[key] = YAML::Node(YAML::NodeType::Map);
  }
  return ConfigReader(node_->child(node_->full(key), node_->yaml[key]));
}

ConfigReader ConfigReader::required_section(const std::string& key) {
  check(has(key), key, "this section is required and missing.");
  return section(key);
}

std::vector<ConfigReader> ConfigReader::list_of_sections(const std::string& key) {
  node_->read.insert(key);
  std::vector<ConfigReader> out;
  if (!has(key)) {
    return out;
  }
  const YAML::Node list = node_->find(key);
  check(list.IsSequence(), key, "this must be a list.");
  for (std::size_t i = 0; i < list.size(); ++i) {
    check(list[i].IsMap(), key, fmt::format("item {} must be a mapping of keys to values.", i + 1));
    out.push_back(ConfigReader(node_->child(fmt::format("{}[{}]", node_->full(key), i), list[i])));
  }
  return out;
}

void ConfigReader::finish() const {
  for (const std::string& key : keys()) {
    if (!node_->read.contains(key)) {
      const std::vector<std::string> known(node_->read.begin(), node_->read.end());
      fail(key, unknown_name("key", key, known));
    }
  }
  for (const auto& child : node_->children) {
    ConfigReader(child).finish();
  }
}

#define EPSIM_CONFIG_TYPE(T)                                                   \
  template std::optional<T> ConfigReader::maybe<T>(const std::string&, Bound); \
  template T ConfigReader::required<T>(const std::string&, Bound);             \
  template T ConfigReader::optional<T>(const std::string&, T, Bound)
EPSIM_CONFIG_TYPE(bool);
EPSIM_CONFIG_TYPE(int);
EPSIM_CONFIG_TYPE(std::int64_t);
EPSIM_CONFIG_TYPE(double);
EPSIM_CONFIG_TYPE(std::string);
EPSIM_CONFIG_TYPE(Seconds);
EPSIM_CONFIG_TYPE(Bytes);
EPSIM_CONFIG_TYPE(BytesPerSecond);
EPSIM_CONFIG_TYPE(FlopsPerSecond);
EPSIM_CONFIG_TYPE(RequestsPerSecond);
EPSIM_CONFIG_TYPE(std::vector<double>);
EPSIM_CONFIG_TYPE(std::vector<std::int64_t>);
EPSIM_CONFIG_TYPE(std::vector<std::string>);
EPSIM_CONFIG_TYPE(std::vector<std::vector<double>>);
#undef EPSIM_CONFIG_TYPE

}  // namespace epsim
