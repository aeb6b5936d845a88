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
#include <string>
#include <utility>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/units.h"

namespace epsim {

// What a number may be; applies to plain numbers and to quantities.
enum class Bound { kPositive, kNotNegative, kAny };

// What a key holds.
enum class ValueType {
  kBool,
  kWhole,
  kNumber,
  kText,
  kTime,
  kBytes,
  kByteRate,
  kFlopRate,
  kRequestRate,
  kNumbers,  // lists
  kWholes,
  kTexts,
  kTable,     // a list of lists of numbers
  kPath,      // a file or a folder
  kSection,   // a mapping
  kSections,  // a list of mappings
};

// One key as readers asked for it.
struct KeyRead {
  std::string path;     // dotted; items of a list as "faults[].at"
  std::string variant;  // what the mapping's `kind`, `engine` or `rule` says, which may decide what its keys mean
  ValueType type = ValueType::kText;
  Bound bound = Bound::kNotNegative;
  bool required = false;
  std::optional<std::string> fallback;  // the default as text; std::nullopt: none, or the reader works one out
  std::vector<std::string> choices;
};

class ConfigReader;

// One YAML document with its overrides. Cheap to copy (shared, the echo included).
class Config {
 public:
  // A file may say `extends: other.yaml` (relative to itself): every key that it lacks is then taken from there,
  // mappings key by key. Messages name the file that a key stands in, and relative paths start from that file's folder.
  static Config from_file(const std::filesystem::path& file);
  // `name` stands for the file in messages; relative paths inside are taken from the working directory.
  static Config from_text(const std::string& text, const std::string& name);

  // Applies "a.b=c"; c is YAML (a number, a word, a list in brackets). Missing mappings on the way are made. Messages
  // about the value name `option`.
  void set(const std::string& assignment, const std::string& option = "--set");
  // Takes the keys that this document lacks from `base`, as `extends` does; a key of that name goes. The two share
  // those parts from then on, so `base` is of no other use.
  void extend(Config base);

  // A document of its own with what this one holds now.
  Config clone() const;

  ConfigReader root() const;
  // The document with every default that was read filled in, as YAML; a comment marks what is a default, with its
  // source where there is one.
  std::string resolved() const;
  // The files that the document extends, then every file that a key named, in the order they were read; its own is left
  // out.
  std::vector<std::filesystem::path> files() const;

  // From now on readers' questions are kept: reads() has each key once per variant, in the order of path and variant.
  // For tests of what documents the keys.
  void record_reads();
  std::vector<KeyRead> reads() const;

  struct Document;

 private:
  explicit Config(std::shared_ptr<Document> document) : document_(std::move(document)) {}
  std::shared_ptr<Document> document_;
};

// One mapping of a document. Each of its keys is read by name; finish() then refuses keys that nobody asked for.
class ConfigReader {
 public:
  ConfigReader(const ConfigReader&);
  ConfigReader& operator=(const ConfigReader&);
  ~ConfigReader();

  // T: bool, int, std::int64_t, double, std::string, Seconds, Bytes, BytesPerSecond, FlopsPerSecond,
  // RequestsPerSecond, std::vector of double, std::int64_t or std::string, and a table: std::vector of std::vector of
  // double.
  template <class T>
  T required(const std::string& key, Bound bound = Bound::kNotNegative);
  template <class T>
  T optional(const std::string& key, T fallback, Bound bound = Bound::kNotNegative);
  template <class T>
  std::optional<T> maybe(const std::string& key, Bound bound = Bound::kNotNegative);
  // One of `allowed`; the error lists them, the nearest first.
  std::string choice(const std::string& key, const std::vector<std::string>& allowed,
                     const std::optional<std::string>& fallback = std::nullopt);
  // A file name: relative to the document's folder, or to the working directory when it came from an override.
  std::filesystem::path path(const std::string& key);
  std::optional<std::filesystem::path> maybe_path(const std::string& key);

  // A nested mapping; an absent one reads as empty unless it is required.
  ConfigReader section(const std::string& key);
  ConfigReader required_section(const std::string& key);
  std::vector<ConfigReader> list_of_sections(const std::string& key);
  // Keys of this mapping in the file's order, for maps whose keys are data (catalogue entries).
  std::vector<std::string> keys() const;
  bool has(const std::string& key) const;
  // The value came from a fallback, not from the document.
  bool is_default(const std::string& key) const;
  // Where the fallback comes from: Config::resolved() tells it. Nothing where the document gives the key.
  void default_from(const std::string& key, const std::string& source);
  bool is_section(const std::string& key) const;
  // What reading the key as `type` would refuse; std::nullopt when it is absent or fine. Asks for nothing.
  std::optional<std::string> problem_of(const std::string& key, ValueType type, Bound bound) const;
  // "this key is required and missing", and which key beside it may be meant: one of `candidates`.
  std::string missing(const std::string& key, const std::vector<std::string>& candidates) const;
  // Keys that nobody reads by name, and their values as YAML text: for options that someone else reads (plug-ins). They
  // count as read from now on, and are given again when asked for again.
  std::vector<std::pair<std::string, std::string>> rest();

  // Throws InputError at `key` unless the condition holds.
  void check(bool condition, const std::string& key, const std::string& problem) const;
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;
  InputPlace place(const std::string& key) const;
  // Refuses keys that were not read, here and in the sections taken from here: all of them in one throw_all().
  void finish() const;
  std::vector<InputError> unread() const;

 private:
  friend class Config;
  struct Node;
  explicit ConfigReader(std::shared_ptr<Node> node);
  template <class T>
  std::optional<T> get(const std::string& key, Bound bound);
  std::vector<std::string> unread_keys() const;
  void note(const std::string& key, ValueType type, Bound bound, bool required,
            std::optional<std::string> fallback = std::nullopt, std::vector<std::string> choices = {}) const;
  std::shared_ptr<Node> node_;
};

// "60s", "10min", "250ms", "3us" / "4GiB", "512MB" / "50GB/s", "100Gb/s" / "312TF/s" / "2.5/s": std::nullopt with
// `problem` filled in when the text is not such a quantity.
std::optional<double> parse_quantity(const std::string& text, const std::string& dimension, std::string& problem);

}  // namespace epsim
