// Configuration: YAML read once into checked structs.
//
// Every key is required or has a default; quantities carry their unit in the file ("60s", "50GB/s", "2.5/s"); a key
// that nobody read is an error that names the nearest known one; numbers must be finite and, unless a bound says
// otherwise, not negative. Values can be overridden with "a.b=c". What was read, defaults included, can be echoed as
// YAML.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/key.h"
#include "sim/core/units.h"

namespace epsim {

struct ConfigDocument;
struct ConfigSection;
class ConfigReader;

// One YAML document with its overrides, and a record of what was read from it. Cheap to copy (shared, record included).
class Config {
 public:
  // A file may say `extends: other.yaml` (relative to itself): every key that it lacks is then taken from there,
  // mappings key by key unless both name a `kind` and another one. Messages name the file that a key stands in, and
  // relative paths start from that file's folder.
  static Config from_file(const std::filesystem::path& file);
  // `name` stands for the file in messages; empty: a text that the program wrote, of which they name neither file nor
  // line. Relative paths inside are taken from the working directory.
  static Config from_text(const std::string& text, const std::string& name);
  // A text that comes with the program: read in half the time, as its size is known to be within the limits.
  static Config from_own_text(std::string_view text, const std::string& name);

  // Applies "a.b=c"; c is YAML (a number, a word, a list in brackets). Missing mappings on the way are made. Messages
  // about the value name `option`.
  void set(const std::string& assignment, const std::string& option = "--set");
  // All of them, one after the other.
  void set(const std::vector<std::string>& assignments, const std::string& option = "--set");
  // Takes the keys that this document lacks from `base`, as `extends` does; a key of that name goes. The two share
  // those parts from then on, so `base` is of no other use.
  void extend(const Config& base);

  // A document of its own with what this one holds now.
  Config clone() const;

  // A document of its own in which each of `sections` holds what the section of that name in the mapping at `path` says,
  // key by key, before its own; the mapping at `path` then lacks them. One that names another `engine` stands alone.
  // Of what was read, the record stays for `kept` alone. Messages name the keys where they are written.
  Config with_overrides(const std::vector<std::string>& path, std::span<const std::string_view> sections,
                        std::span<const std::string_view> kept) const;
  // resolved() then gives the mapping at `path` as `other`, made by with_overrides(), resolved it, with these sections
  // in full: null stands for a key that is here and that `other` lacks. Files that `other` read count as read here.
  void record_overrides(const std::vector<std::string>& path, std::span<const std::string_view> sections,
                        const Config& other);

  ConfigReader root() const;
  // The document and every default that was read, as YAML; a comment marks what is a default, with its source where
  // there is one. File names are absolute.
  std::string resolved() const;
  // The files that the document extends, then every file that a key named, in the order they were read; its own is left
  // out.
  std::vector<std::filesystem::path> files() const;

 private:
  explicit Config(std::shared_ptr<ConfigDocument> document) : document_(std::move(document)) {}
  std::shared_ptr<ConfigDocument> document_;
};

// Throws InputError where two of `assignments` ("a.b=c") set the same key.
void refuse_repeated(const std::vector<std::string>& assignments);

// One mapping of a document. Each of its keys is read by name; finish() then refuses keys that nobody asked for.
class ConfigReader {
 public:
  ConfigReader(const ConfigReader&);
  ConfigReader& operator=(const ConfigReader&);
  ~ConfigReader();

  // Through the key's row (key.h), which says type, default, range and choices. T is as below or, for names of one, an
  // enumeration (choice.h). A key that is required, or has a default of its own:
  template <class T>
  T read(const Key& key) {
    if constexpr (std::is_enum_v<T>) {
      return *value_named<T>(read_value<std::string>(key));
    } else {
      return read_value<T>(key);
    }
  }
  // A default that the caller works out; `source`: where it comes from, for Config::resolved().
  template <class T>
  T read(const Key& key, const T& fallback, const std::string& source = "") {
    if constexpr (std::is_enum_v<T>) {
      return *value_named<T>(read_value<std::string>(key, std::string(name_of(fallback)), source));
    } else {
      return read_value<T>(key, fallback, source);
    }
  }
  // Nothing where the document does not say.
  template <class T>
  std::optional<T> maybe(const Key& key) {
    if constexpr (std::is_enum_v<T>) {
      const std::optional<std::string> name = maybe_value<std::string>(key);
      return name ? value_named<T>(*name) : std::nullopt;
    } else {
      return maybe_value<T>(key);
    }
  }
  std::filesystem::path path(const Key& key);
  std::optional<std::filesystem::path> maybe_path(const Key& key);
  void note_file(const std::filesystem::path& file);  // one that is read beside a path's: of Config::files() too
  ConfigReader section(const Key& key);  // an absent one reads as empty unless the row says that it is required
  std::vector<ConfigReader> list_of_sections(const Key& key);
  // The row's default in place of the one that another reader of the same key has.
  void preset(const Key& key);

  // By name, for documents that are not scenarios. T: bool, int, std::int64_t, double, std::string, Seconds, Bytes,
  // BytesPerSecond, FlopsPerSecond, RequestsPerSecond, std::vector of double, std::int64_t or std::string, and a table:
  // std::vector of std::vector of double.
  template <class T>
  T required(const std::string& key, Range range = {});
  template <class T>
  T optional(const std::string& key, T fallback, Range range = {});
  template <class T>
  std::optional<T> maybe(const std::string& key, Range range = {});
  // One of `allowed`; the error lists them, the nearest first.
  std::string choice(const std::string& key, const std::vector<std::string>& allowed,
                     const std::optional<std::string>& fallback = std::nullopt);
  // A file name: relative to the document's folder, or to the working directory when it came from an override. Where
  // there is none, an installed file of that name (shipped_file()).
  std::filesystem::path path(const std::string& key);
  std::optional<std::filesystem::path> maybe_path(const std::string& key);

  // A nested mapping; an absent one reads as empty unless it is required.
  ConfigReader section(const std::string& key);
  ConfigReader required_section(const std::string& key);
  std::vector<ConfigReader> list_of_sections(const std::string& key);
  // Keys of this mapping in the file's order, for maps whose keys are data (catalogue entries).
  std::vector<std::string> keys() const;
  bool has(const std::string& key) const;
  // The default of a key that another reader reads, in place of that reader's own.
  template <class T>
  void preset(const std::string& key, const T& fallback);
  bool is_section(const std::string& key) const;
  // What reading the key as `type` would refuse; std::nullopt when it is absent or fine. Asks for nothing.
  std::optional<std::string> problem_of(const std::string& key, ValueType type, Range range) const;
  // "this key is required and missing", and which key beside it may be meant: one of `candidates`.
  std::string missing(const std::string& key, const std::vector<std::string>& candidates) const;
  // Keys that nobody reads by name, and their values as YAML text: for options that someone else reads (plug-ins). They
  // count as read from now on, and are given again when asked for again.
  std::vector<std::pair<std::string, std::string>> rest();

  // Counts every key of this mapping as read, and of those below it.
  void pass_over();

  // Throws InputError at `key` unless the condition holds.
  void check(bool condition, const std::string& key, const std::string& problem) const;
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;
  InputPlace place(const std::string& key) const;
  // What is wrong with a key that nothing reads.
  InputError unknown_key(const std::string& key, const std::vector<std::string>& known) const;
  // Refuses keys that were not read, here and in the sections taken from here: all of them in one throw_all().
  void finish() const;
  std::vector<InputError> unread() const;

 private:
  friend class Config;
  explicit ConfigReader(std::shared_ptr<ConfigSection> node);
  template <class T>
  T read_value(const Key& key);
  template <class T>
  T read_value(const Key& key, const T& fallback, const std::string& source);
  template <class T>
  std::optional<T> maybe_value(const Key& key);
  template <class T>
  std::optional<T> get(const std::string& key, Range range);
  template <class T>
  T get_or(const std::string& key, const T& fallback, Range range, const std::string& source = "");
  template <class T>
  T checked_choice(const Key& key, T value) const;
  std::vector<std::string> unread_keys() const;
  std::shared_ptr<ConfigSection> node_;
};

}  // namespace epsim
