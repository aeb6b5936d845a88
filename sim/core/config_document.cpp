#include "sim/core/config_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "sim/core/config_size.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

constexpr int kMostBases = 16;

// Refuses what yaml-cpp would pass over in silence: a key given twice, and keys that are not words.
void check_keys(const YAML::Node& node, const std::string& name) {
  const auto need = [&](bool holds, const YAML::Node& at, const std::string& what) {
    if (!holds) {
      throw InputError({name, at.Mark().line + 1, at.IsScalar() ? at.Scalar() : ""}, what);
    }
  };
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) {
      check_keys(item, name);
    }
  } else if (node.IsMap()) {
    std::set<std::string> seen;
    for (const auto& entry : node) {
      need(entry.first.IsScalar(), entry.first, "a key must be a word.");
      need(seen.insert(entry.first.Scalar()).second, entry.first, "this key is given twice.");
      check_keys(entry.second, name);
    }
  }
}

// What an editor does not show: an indentation with a tab up to line `last`, counted from 0.
std::string tab_words(const std::string& text, int last) {
  std::istringstream in(text);
  std::string line;
  for (int number = 0; number <= last && std::getline(in, line); ++number) {
    if (const std::size_t tab = line.find_first_not_of(' '); tab != std::string::npos && line[tab] == '\t') {
      return fmt::format(" Line {} is indented with a tab; YAML takes spaces.", number + 1);
    }
  }
  return "";
}

YAML::Node parse(const std::string& text, const std::string& name, bool size_is_known) {
  try {
    if (!size_is_known) {
      check_yaml_size(text, name);
    }
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      throw InputError({name, documents[1].Mark().line + 1, ""},
                       "a file holds one document; a second one starts here.");
    }
    YAML::Node root = documents.empty() ? YAML::Node() : documents.front();
    if (root.IsNull()) {
      root = YAML::Node(YAML::NodeType::Map);
    }
    refuse_if(!root.IsMap(), {name, 1, ""}, "the document must be a mapping of keys to values.");
    check_keys(root, name);
    return root;
  } catch (const YAML::Exception& e) {
    throw InputError({name, e.mark.line + 1, ""},
                     fmt::format("this is not valid YAML: {}.{}", e.msg, tab_words(text, e.mark.line)));
  }
}

// The part of a path before its last key or index; empty at the top.
std::string parent_of(const std::string& path) {
  const std::size_t at = path.find_last_of(".[");
  return at == std::string::npos ? "" : path.substr(0, at);
}

YAML::Node parse_value(const std::string& text, const InputPlace& place) {
  try {
    check_yaml_size(text, place.file);
    YAML::Node value = YAML::Load(text);
    check_keys(value, place.file);
    return value;
  } catch (const YAML::Exception& e) {
    throw InputError(place, fmt::format("the value is not valid YAML: {}.", e.msg));
  }
}

std::vector<std::string> keys_of_path(const std::string& path, const InputPlace& place) {
  std::stringstream keys(path + ".");
  std::vector<std::string> parts;
  for (std::string part; std::getline(keys, part, '.');) {
    refuse_if(part.empty(), place, "a key between the dots is empty.");
    parts.push_back(part);
  }
  return parts;
}

std::string joined(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

// Mappings in block style, so that a comment can stand behind a value.
void emit(YAML::Emitter& out, const YAML::Node& node, const std::string& path,
          const std::map<std::string, std::string>& comments) {
  if (!node.IsMap() || node.size() == 0) {
    out << node;
    return;
  }
  out << YAML::Block << YAML::BeginMap;
  for (const auto& entry : node) {
    const std::string full = joined(path, entry.first.Scalar());
    out << YAML::Key << entry.first << YAML::Value;
    emit(out, entry.second, full, comments);
    if (const auto found = comments.find(full); found != comments.end()) {
      out << YAML::Comment(found->second);
    }
  }
  out << YAML::EndMap;
}

}  // namespace

ConfigDocument::ConfigDocument(const std::string& text, const std::string& name, bool size_is_known)
    : root(parse(text, name, size_is_known)), own{name, {}, !name.empty()} {}

const std::pair<const std::string, ConfigDocument::Source>* ConfigDocument::moved_part(const std::string& path) const {
  for (std::string at = path; !at.empty(); at = parent_of(at)) {
    if (const auto found = elsewhere.find(at); found != elsewhere.end()) {
      return &*found;
    }
  }
  return nullptr;
}

const ConfigDocument::Source& ConfigDocument::source_of(const std::string& path) const {
  const auto* moved = moved_part(path);
  return moved != nullptr ? moved->second : own;
}

// What `with` has stands for what `into` has; mappings are merged key by key.
void ConfigDocument::put_over(YAML::Node into, const YAML::Node& with, const std::string& path, const std::string& from,
                              const ConfigDocument& original) {
  for (const auto& entry : with) {
    const std::string key = entry.first.as<std::string>(), full = joined(path, key), written = joined(from, key);
    const YAML::Node mine = into[key];
    if (mine.IsDefined() && mine.IsMap() && entry.second.IsMap()) {
      put_over(mine, entry.second, full, written, original);
      continue;
    }
    into[key] = entry.second;  // shared, not cloned: a clone has no line numbers
    Source source = original.source_of(written);
    source.key = written;
    come_from(full, source);
  }
}

void ConfigDocument::override_section(const std::string& name, const std::string& path, const YAML::Node& with,
                                      const ConfigDocument& original) {
  constexpr const char* kEngine = "engine";
  const YAML::Node mine = root[name], engine = with[kEngine];
  const bool other =
      engine.IsDefined() && engine.IsScalar() && mine.IsDefined() && mine.IsMap() &&
      (!mine[kEngine].IsDefined() || !mine[kEngine].IsScalar() || mine[kEngine].Scalar() != engine.Scalar());
  if (other || !mine.IsDefined() || !mine.IsMap()) {
    root[name] = YAML::Node(YAML::NodeType::Map);
  }
  put_over(root[name], with, name, path, original);
}

void ConfigDocument::come_from(const std::string& path, const Source& source) {
  std::erase_if(elsewhere, [&](const auto& entry) {
    return entry.first.starts_with(path + ".") || entry.first.starts_with(path + "[");
  });
  elsewhere[path] = source;
}

// A section of another kind has other keys.
bool ConfigDocument::stands_alone(const YAML::Node& mine, const YAML::Node& from) {
  const YAML::Node own = mine["kind"], other = from["kind"];
  return own.IsDefined() && own.IsScalar() && other.IsDefined() && other.IsScalar() && own.Scalar() != other.Scalar();
}

void ConfigDocument::merge(YAML::Node into, const YAML::Node& from, const std::string& path,
                           const ConfigDocument& base) {
  for (const auto& entry : from) {
    const std::string key = entry.first.as<std::string>(), full = joined(path, key);
    const YAML::Node mine = into[key];
    if (!mine.IsDefined()) {
      into[key] = entry.second;  // shared, not cloned: a clone has no line numbers
      come_from(full, base.source_of(full));
    } else if (mine.IsMap() && entry.second.IsMap() && !stands_alone(mine, entry.second)) {
      merge(mine, entry.second, full, base);
    } else if (mine.IsNull()) {
      into.remove(key);  // takes the extended file's away
    }
  }
}

void ConfigDocument::set(const std::string& assignment, const std::string& option) {
  constexpr std::size_t kShown = 80;
  const std::string place =
      option + " " + (assignment.size() <= kShown ? assignment : assignment.substr(0, kShown) + "...");
  const std::size_t equals = assignment.find('=');
  refuse_if(equals == std::string::npos || equals == 0, {place, 0, ""},
            "an override is written key=value, with dots between nested keys.");
  const std::string path = assignment.substr(0, equals);
  const YAML::Node value = parse_value(assignment.substr(equals + 1), {place, 0, path});
  const std::vector<std::string> parts = keys_of_path(path, {place, 0, path});
  YAML::Node node = root;
  std::string full, own_part = path;  // the uppermost part that the assignment adds
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    full = joined(full, parts[i]);
    YAML::Node next = node[parts[i]];
    if (next.IsDefined() && !next.IsMap() && !next.IsNull()) {
      const std::string where = next.Mark().is_null() ? own.file : fmt::format("{}:{}", own.file, next.Mark().line + 1);
      throw InputError({place, 0, path},
                       fmt::format("'{}' is a value in {}, so it has no key below it.", parts[i], where));
    }
    if (!next.IsMap()) {
      own_part = next.IsDefined() || own_part != path ? own_part : full;
      node[parts[i]] = YAML::Node(YAML::NodeType::Map);
    }
    node.reset(node[parts[i]]);
  }
  node[parts.back()] = value;
  come_from(own_part, {option, {}, false});
}

// Takes out `extends` and merges what it names; `depth` files extend each other already.
std::shared_ptr<ConfigDocument> ConfigDocument::read(const std::filesystem::path& file, int depth) {
  auto document = std::make_shared<ConfigDocument>(read_document(file), file.string());
  document->own.folder = file.parent_path();
  const YAML::Node base_name = document->root["extends"];
  if (!base_name.IsDefined()) {
    return document;
  }
  const InputPlace place{file.string(), base_name.Mark().line + 1, "extends"};
  refuse_if(!base_name.IsScalar() || base_name.Scalar().empty(), place,
            "this names one file, relative to this one, that provides the keys that this one lacks.");
  refuse_if(depth >= kMostBases, place,
            fmt::format("{} files extend each other here; do they go in a circle?", kMostBases));
  const std::filesystem::path base_file = (file.parent_path() / base_name.Scalar()).lexically_normal();
  refuse_if(!std::filesystem::is_regular_file(base_file), place,
            fmt::format("there is no file {}.", base_file.string()));
  document->root.remove("extends");
  const std::shared_ptr<ConfigDocument> base = read(base_file, depth + 1);
  document->merge(document->root, base->root, "", *base);
  document->files = base->files;
  document->files.push_back(base_file);
  return document;
}

void ConfigDocument::note_default(const std::string& path, const std::string& key, const YAML::Node& value,
                                  const std::string& source) {
  std::vector<Default>& all = defaults[path];
  if (std::none_of(all.begin(), all.end(), [&](const Default& known) { return known.key == key; })) {
    all.push_back({key, value, source});
  }
}

// A copy: mappings, and lists with mappings in them, are new nodes; values are shared.
YAML::Node ConfigDocument::with_defaults(const YAML::Node& node, const std::string& path) const {
  if (const auto found = absolute_paths.find(path); found != absolute_paths.end()) {
    return YAML::Node(found->second);
  }
  if (node.IsSequence() && node.size() > 0 && node[0].IsMap()) {
    YAML::Node out(YAML::NodeType::Sequence);
    out.SetStyle(node.Style());
    for (std::size_t i = 0; i < node.size(); ++i) {
      out.push_back(with_defaults(node[i], fmt::format("{}[{}]", path, i)));
    }
    return out;
  }
  if (!node.IsMap()) {
    return node;
  }
  YAML::Node out(YAML::NodeType::Map);
  out.SetStyle(node.Style());
  std::set<std::string> given, null;  // a look-up in a node passes over all of its keys
  for (const auto& entry : node) {
    (entry.second.IsNull() ? null : given).insert(entry.first.Scalar());
    out.force_insert(entry.first, with_defaults(entry.second, joined(path, entry.first.Scalar())));
  }
  if (const auto found = defaults.find(path); found != defaults.end()) {
    for (const Default& taken : found->second) {
      const auto value = [&] { return with_defaults(taken.value, joined(path, taken.key)); };
      if (null.contains(taken.key)) {
        out[taken.key] = value();
      } else if (!given.contains(taken.key)) {
        out.force_insert(taken.key, value());
      }
    }
  }
  return out;
}

YAML::Node ConfigDocument::resolved_section(const std::string& name) const {
  const YAML::Node written = static_cast<const YAML::Node&>(root)[name];
  if (written.IsDefined() && !written.IsNull()) {
    return with_defaults(written, name);
  }
  if (const auto found = defaults.find(""); found != defaults.end()) {
    for (const Default& taken : found->second) {
      if (taken.key == name) {
        return with_defaults(taken.value, name);
      }
    }
  }
  return YAML::Node(YAML::NodeType::Map);
}

YAML::Node ConfigDocument::resolved_mapping(const std::vector<std::string>& path) const {
  YAML::Node at = root;
  std::string full;
  for (const std::string& part : path) {
    at.reset(static_cast<const YAML::Node&>(at)[part]);
    full = joined(full, part);
  }
  return with_defaults(at, full);
}

std::string ConfigDocument::resolved() const {
  std::map<std::string, std::string> comments;
  for (const auto& [path, all] : defaults) {
    for (const Default& taken : all) {
      if (!taken.value.IsMap()) {
        comments[joined(path, taken.key)] = taken.source.empty() ? "default" : "default: " + taken.source;
      }
    }
  }
  const YAML::Node tree = with_defaults(root, "");
  for (const auto& [path, node] : recorded) {
    YAML::Node at = tree;
    for (const std::string& part : keys_of_path(path, {})) {
      at.reset(at[part]);
    }
    at = node;
  }
  YAML::Emitter out;
  emit(out, tree, "", comments);
  return std::string(out.c_str()) + "\n";
}

}  // namespace epsim
