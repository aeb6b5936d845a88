// How ConfigReader reads values: by name, and through a key's row.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/core/check.h"
#include "sim/core/config.h"
#include "sim/core/config_convert.h"
#include "sim/core/config_document.h"

namespace epsim {
namespace {

// What reading `value` as a T says against it.
template <class T>
std::optional<std::string> refused(const YAML::Node& value, Range range) {
  try {
    yaml::Convert<T>::read(value, range);
    return std::nullopt;
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

// The default that a row gives, as a T.
template <class T>
T own_default(const Key& key) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(key.fallback.number);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return std::string(key.fallback.words);
  } else if constexpr (requires(T value) { value.count(); }) {
    return T(key.fallback.number);
  } else {
    EPSIM_CHECK(false, "a list has no default in its row");
  }
}

YAML::Node written_default(const Key& key) {
  switch (key.value.type) {
    case ValueType::kBool:
      return yaml::Convert<bool>::write(own_default<bool>(key));
    case ValueType::kWhole:
      return yaml::Convert<std::int64_t>::write(own_default<std::int64_t>(key));
    case ValueType::kNumber:
      return yaml::Convert<double>::write(own_default<double>(key));
    case ValueType::kTime:
      return yaml::Convert<Seconds>::write(own_default<Seconds>(key));
    case ValueType::kBytes:
      return yaml::Convert<Bytes>::write(own_default<Bytes>(key));
    case ValueType::kByteRate:
      return yaml::Convert<BytesPerSecond>::write(own_default<BytesPerSecond>(key));
    case ValueType::kFlopRate:
      return yaml::Convert<FlopsPerSecond>::write(own_default<FlopsPerSecond>(key));
    case ValueType::kRequestRate:
      return yaml::Convert<RequestsPerSecond>::write(own_default<RequestsPerSecond>(key));
    default:
      return yaml::Convert<std::string>::write(std::string(key.fallback.words));
  }
}

}  // namespace

std::string default_text(const Key& key) {
  return key.fallback.kind == key::Fallback::Kind::kValue ? yaml::text_of(written_default(key)) : "";
}

template <class T>
std::optional<T> ConfigReader::maybe(const std::string& key, Range range) {
  return get<T>(key, range);
}

template <class T>
std::optional<T> ConfigReader::get(const std::string& key, Range range) {
  node_->read.insert(key);
  if (!has(key)) {
    const auto preset = node_->document->presets.find(node_->full(key));
    return preset == node_->document->presets.end() ? std::nullopt
                                                    : std::optional<T>(yaml::Convert<T>::read(preset->second, range));
  }
  try {
    return yaml::Convert<T>::read(node_->find(key), range);
  } catch (const std::invalid_argument& e) {
    fail(key, e.what());
  }
}

template <class T>
T ConfigReader::required(const std::string& key, Range range) {
  std::optional<T> value = get<T>(key, range);
  if (!value) {
    fail(key, missing(key, unread_keys()));
  }
  return *std::move(value);
}

template <class T>
T ConfigReader::optional(const std::string& key, T fallback, Range range) {
  return get_or(key, fallback, range);
}

template <class T>
T ConfigReader::get_or(const std::string& key, const T& fallback, Range range, const std::string& source) {
  if (std::optional<T> value = get<T>(key, range)) {
    return *std::move(value);
  }
  node_->document->note_default(node_->path, key, yaml::Convert<T>::write(fallback), source);
  return fallback;
}

template <class T>
T ConfigReader::checked_choice(const Key& key, T value) const {
  if constexpr (std::is_same_v<T, std::string>) {
    if (key.value.choices != nullptr && !key.value.open) {
      const std::vector<std::string> allowed = key.value.choices();
      check(std::find(allowed.begin(), allowed.end(), value) != allowed.end(), std::string(key.name),
            unknown_name("value", value, allowed));
    }
  }
  return value;
}

template <class T>
T ConfigReader::read_value(const Key& key) {
  const std::string name(key.name);
  EPSIM_CHECK(key.value.type == yaml::kTypeOf<T>, name + " is read as another type than its row says");
  if (key.fallback.kind == key::Fallback::Kind::kValue) {
    return checked_choice(key, get_or<T>(name, own_default<T>(key), key.value.range));
  }
  std::optional<T> value = get<T>(name, key.value.range);
  if (!value) {
    fail(name, missing(name, unread_keys()));
  }
  return checked_choice(key, *std::move(value));
}

template <class T>
T ConfigReader::read_value(const Key& key, const T& fallback, const std::string& source) {
  const std::string name(key.name);
  EPSIM_CHECK(key.value.type == yaml::kTypeOf<T>, name + " is read as another type than its row says");
  EPSIM_CHECK(key.fallback.kind == key::Fallback::Kind::kWorkedOut, name + " has its own default in its row");
  return checked_choice(key, get_or<T>(name, fallback, key.value.range, source));
}

template <class T>
std::optional<T> ConfigReader::maybe_value(const Key& key) {
  const std::string name(key.name);
  EPSIM_CHECK(key.value.type == yaml::kTypeOf<T>, name + " is read as another type than its row says");
  std::optional<T> value = get<T>(name, key.value.range);
  return value ? std::optional<T>(checked_choice(key, *std::move(value))) : std::nullopt;
}

void ConfigReader::preset(const Key& key) {
  const std::string name(key.name);
  const YAML::Node written = written_default(key);
  node_->document->presets[node_->full(name)] = written;
  if (!has(name)) {
    node_->document->note_default(node_->path, name, written);
  }
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

template <class T>
void ConfigReader::preset(const std::string& key, const T& fallback) {
  const YAML::Node written = yaml::Convert<T>::write(fallback);
  node_->document->presets[node_->full(key)] = written;
  if (!has(key)) {
    node_->document->note_default(node_->path, key, written);
  }
}

std::optional<std::string> ConfigReader::problem_of(const std::string& key, ValueType type, Range range) const {
  const YAML::Node value = node_->find(key);
  if (!has(key)) {
    return std::nullopt;
  }
  switch (type) {
    case ValueType::kBool:
      return refused<bool>(value, range);
    case ValueType::kWhole:
      return refused<std::int64_t>(value, range);
    case ValueType::kNumber:
      return refused<double>(value, range);
    case ValueType::kText:
    case ValueType::kPath:
      return refused<std::string>(value, range);
    case ValueType::kTime:
      return refused<Seconds>(value, range);
    case ValueType::kBytes:
      return refused<Bytes>(value, range);
    case ValueType::kByteRate:
      return refused<BytesPerSecond>(value, range);
    case ValueType::kFlopRate:
      return refused<FlopsPerSecond>(value, range);
    case ValueType::kRequestRate:
      return refused<RequestsPerSecond>(value, range);
    case ValueType::kNumbers:
      return refused<std::vector<double>>(value, range);
    case ValueType::kNumberOrList:
      return refused<NumberOrList>(value, range);
    case ValueType::kWholes:
      return refused<std::vector<std::int64_t>>(value, range);
    case ValueType::kTexts:
      return refused<std::vector<std::string>>(value, range);
    case ValueType::kTable:
      return refused<std::vector<std::vector<double>>>(value, range);
    case ValueType::kSection:
      return value.IsMap() ? std::nullopt : std::optional<std::string>(ConfigSection::kNotMapping);
    case ValueType::kSections:
      return value.IsSequence() ? std::nullopt : std::optional<std::string>(ConfigSection::kNotList);
  }
  return std::nullopt;
}

#define EPSIM_CONFIG_TYPE(T)                                                        \
  template std::optional<T> ConfigReader::get<T>(const std::string&, Range);        \
  template std::optional<T> ConfigReader::maybe<T>(const std::string&, Range);      \
  template T ConfigReader::required<T>(const std::string&, Range);                  \
  template T ConfigReader::optional<T>(const std::string&, T, Range);               \
  template void ConfigReader::preset<T>(const std::string&, const T&);              \
  template T ConfigReader::read_value<T>(const Key&);                               \
  template T ConfigReader::read_value<T>(const Key&, const T&, const std::string&); \
  template std::optional<T> ConfigReader::maybe_value<T>(const Key&)
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
EPSIM_CONFIG_TYPE(NumberOrList);
EPSIM_CONFIG_TYPE(std::vector<std::int64_t>);
EPSIM_CONFIG_TYPE(std::vector<std::string>);
EPSIM_CONFIG_TYPE(std::vector<std::vector<double>>);
#undef EPSIM_CONFIG_TYPE

}  // namespace epsim
