#include "sim/core/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/core/config_convert.h"
#include "sim/core/config_document.h"

namespace epsim {
namespace {

constexpr const char* kNotSection = "this must be a mapping of keys to values.";
constexpr const char* kNotList = "this must be a list.";

std::string text_of(const YAML::Node& value) {
  YAML::Emitter out;
  out << value;
  return value.IsScalar() ? value.Scalar() : value.IsNull() ? "" : out.c_str();
}

// What reading `value` as a T says against it.
template <class T>
std::optional<std::string> refused(const YAML::Node& value, Bound bound) {
  try {
    yaml::Convert<T>::read(value, bound);
    return std::nullopt;
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

// "a[3].b" as "a[].b".
std::string without_indices(const std::string& path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    inside = inside && c != ']';
    if (!inside) {
      out += c;
    }
    inside = inside || c == '[';
  }
  return out;
}

}  // namespace

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

Config Config::clone() const {
  auto document = std::make_shared<Document>(*document_);
  document->root.reset(YAML::Clone(document_->root));  // an assignment would turn the original into the copy
  return Config(std::move(document));
}

ConfigReader Config::root() const {
  auto node = std::make_shared<ConfigReader::Node>();
  node->document = document_;
  node->yaml = document_->root;
  return ConfigReader(std::move(node));
}

namespace {

// Mappings in block style, so that a comment can stand behind a value.
void emit(YAML::Emitter& out, const YAML::Node& node, const std::string& path,
          const std::map<std::string, std::string>& defaults) {
  if (!node.IsMap() || node.size() == 0) {
    out << node;
    return;
  }
  out << YAML::Block << YAML::BeginMap;
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>();
    const std::string full = path.empty() ? key : path + "." + key;
    out << YAML::Key << entry.first << YAML::Value;
    emit(out, entry.second, full, defaults);
    if (const auto found = defaults.find(full); found != defaults.end()) {
      out << YAML::Comment(found->second.empty() ? "default" : "default: " + found->second);
    }
  }
  out << YAML::EndMap;
}

}  // namespace

std::string Config::resolved() const {
  YAML::Emitter out;
  emit(out, document_->root, "", document_->defaults);
  return std::string(out.c_str()) + "\n";
}

void Config::record_reads() { document_->recording = true; }

std::vector<KeyRead> Config::reads() const {
  std::vector<KeyRead> out;
  for (const auto& [key, read] : document_->reads) {
    out.push_back(read);
  }
  return out;
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

bool ConfigReader::is_default(const std::string& key) const {
  return node_->document->defaults.contains(node_->full(key));
}

void ConfigReader::default_from(const std::string& key, const std::string& source) {
  if (const auto found = node_->document->defaults.find(node_->full(key)); found != node_->document->defaults.end()) {
    found->second = source;
  }
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
    out.emplace_back(key, text_of(value));
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

void ConfigReader::note(const std::string& key, ValueType type, Bound bound, bool required,
                        std::optional<std::string> fallback, std::vector<std::string> choices) const {
  if (!node_->document->recording) {
    return;
  }
  std::string variant;
  for (const char* which : {"kind", "engine", "rule"}) {
    const YAML::Node value = node_->find(which);
    if (key == which) {
      variant = "";
      break;
    }
    variant = variant.empty() && value.IsDefined() && value.IsScalar() ? value.Scalar() : variant;
  }
  const std::string path = without_indices(node_->full(key));
  const auto at =
      node_->document->reads.try_emplace({path, variant}, KeyRead{path, variant, type, bound, false, {}, {}});
  KeyRead& known = at.first->second;
  // A file's name is read as a text first, an optional key may be asked for again once it is known to be there.
  known.type = type == ValueType::kText ? known.type : type;
  known.required = known.required || required;
  known.fallback = known.fallback ? known.fallback : std::move(fallback);
  known.choices = known.choices.empty() ? std::move(choices) : known.choices;
}

std::optional<std::string> ConfigReader::problem_of(const std::string& key, ValueType type, Bound bound) const {
  const YAML::Node value = node_->find(key);
  if (!has(key)) {
    return std::nullopt;
  }
  switch (type) {
    case ValueType::kBool:
      return refused<bool>(value, bound);
    case ValueType::kWhole:
      return refused<std::int64_t>(value, bound);
    case ValueType::kNumber:
      return refused<double>(value, bound);
    case ValueType::kText:
    case ValueType::kPath:
      return refused<std::string>(value, bound);
    case ValueType::kTime:
      return refused<Seconds>(value, bound);
    case ValueType::kBytes:
      return refused<Bytes>(value, bound);
    case ValueType::kByteRate:
      return refused<BytesPerSecond>(value, bound);
    case ValueType::kFlopRate:
      return refused<FlopsPerSecond>(value, bound);
    case ValueType::kRequestRate:
      return refused<RequestsPerSecond>(value, bound);
    case ValueType::kNumbers:
      return refused<std::vector<double>>(value, bound);
    case ValueType::kWholes:
      return refused<std::vector<std::int64_t>>(value, bound);
    case ValueType::kTexts:
      return refused<std::vector<std::string>>(value, bound);
    case ValueType::kTable:
      return refused<std::vector<std::vector<double>>>(value, bound);
    case ValueType::kSection:
      return value.IsMap() ? std::nullopt : std::optional<std::string>(kNotSection);
    case ValueType::kSections:
      return value.IsSequence() ? std::nullopt : std::optional<std::string>(kNotList);
  }
  return std::nullopt;
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

template <class T>
std::optional<T> ConfigReader::maybe(const std::string& key, Bound bound) {
  note(key, yaml::kTypeOf<T>, bound, false);
  return get<T>(key, bound);
}

template <class T>
std::optional<T> ConfigReader::get(const std::string& key, Bound bound) {
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
  note(key, yaml::kTypeOf<T>, bound, true);
  std::optional<T> value = get<T>(key, bound);
  if (!value) {
    fail(key, missing(key, unread_keys()));
  }
  return *std::move(value);
}

template <class T>
T ConfigReader::optional(const std::string& key, T fallback, Bound bound) {
  std::optional<T> value = get<T>(key, bound);
  if (node_->document->recording) {
    note(key, yaml::kTypeOf<T>, bound, false, text_of(yaml::Convert<T>::write(fallback)));
  }
  if (value) {
    return *std::move(value);
  }
  node_->yaml[key] = yaml::Convert<T>::write(fallback);  // the echo shows defaults too
  node_->document->defaults[node_->full(key)] = "";
  return fallback;
}

std::string ConfigReader::choice(const std::string& key, const std::vector<std::string>& allowed,
                                 const std::optional<std::string>& fallback) {
  std::string value = fallback ? optional<std::string>(key, *fallback) : required<std::string>(key);
  note(key, ValueType::kText, Bound::kNotNegative, !fallback, fallback, allowed);
  for (const std::string& name : allowed) {
    if (value == name) {
      return value;
    }
  }
  fail(key, unknown_name("value", value, allowed));
}

std::optional<std::filesystem::path> ConfigReader::maybe_path(const std::string& key) {
  note(key, ValueType::kPath, Bound::kNotNegative, false);
  const std::optional<std::string> text = get<std::string>(key, Bound::kNotNegative);
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
  note(key, ValueType::kPath, Bound::kNotNegative, true);
  std::optional<std::filesystem::path> file = maybe_path(key);
  if (!file) {
    fail(key, missing(key, unread_keys()));
  }
  return *std::move(file);
}

ConfigReader ConfigReader::section(const std::string& key) {
  node_->read.insert(key);
  const YAML::Node found = node_->find(key);
  note(key, ValueType::kSection, Bound::kNotNegative, false);
  check(!found.IsDefined() || found.IsNull() || found.IsMap(), key, kNotSection);
  if (!found.IsDefined() || found.IsNull()) {
    node_->yaml[key] = YAML::Node(YAML::NodeType::Map);
  }
  return ConfigReader(node_->child(node_->full(key), node_->yaml[key]));
}

ConfigReader ConfigReader::required_section(const std::string& key) {
  note(key, ValueType::kSection, Bound::kNotNegative, true);
  if (!has(key)) {
    fail(key, missing(key, unread_keys()));
  }
  return section(key);
}

std::vector<ConfigReader> ConfigReader::list_of_sections(const std::string& key) {
  node_->read.insert(key);
  note(key, ValueType::kSections, Bound::kNotNegative, false);
  std::vector<ConfigReader> out;
  if (!has(key)) {
    return out;
  }
  const YAML::Node list = node_->find(key);
  check(list.IsSequence(), key, kNotList);
  for (std::size_t i = 0; i < list.size(); ++i) {
    check(list[i].IsMap(), key, fmt::format("item {} must be a mapping of keys to values.", i + 1));
    out.push_back(ConfigReader(node_->child(fmt::format("{}[{}]", node_->full(key), i), list[i])));
  }
  return out;
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
    out.emplace_back(place(key), unknown_name("key", key, known));
  }
  for (const auto& child : node_->children) {
    const std::vector<InputError> below = ConfigReader(child).unread();
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

void ConfigReader::finish() const { throw_all(unread()); }

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
