// One object of a Hugging Face config.json, read key by key, that knows which keys nobody has read.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace epsim {

// The object that a file holds. Throws InputError, with the line where it is not JSON.
nlohmann::json hf_document(const std::string& text, const std::string& file);

class HfObject {
 public:
  // Keeps a reference to `json`. `prefix` stands ahead of its keys in messages.
  HfObject(const nlohmann::json& json, std::string file, std::string prefix)
      : json_(json), file_(std::move(file)), prefix_(std::move(prefix)) {}

  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;
  const std::string& file() const { return file_; }
  bool has(const std::string& key) const { return json_.contains(key); }
  bool given(const std::string& key) const { return has(key) && !json_.at(key).is_null(); }
  bool is_object(const std::string& key) const { return has(key) && json_.at(key).is_object(); }

  // Each reads its key: a missing key, a wrong type or a value out of range is an InputError with file and key.
  int integer(const std::string& key, int smallest, int largest = 10'000'000) const;
  // For keys that a config may set to null, which then means `if_null`; the key itself must be there.
  int integer_or_null(const std::string& key, int smallest, int if_null, int largest = 10'000'000) const;
  // For keys that a config may leave out or set to null.
  int integer_or(const std::string& key, int smallest, int otherwise, int largest = 10'000'000) const;
  bool boolean_or(const std::string& key, bool otherwise) const;
  std::string word(const std::string& key) const;
  std::vector<std::string> words(const std::string& key) const;
  std::vector<int> integers(const std::string& key) const;  // layer numbers and the like: 0 to 1,000,000
  HfObject object(const std::string& key) const;

  // Counts the key as read: it says nothing in this model.
  void skip(const std::string& key) const { read_.insert(key); }
  // Refuses keys that nobody has read, other than null ones and those that change neither weights (beyond 0.1 %),
  // attention nor cache of a model of this model_type.
  void finish(std::string_view model_type) const;

 private:
  using Fits = bool(const nlohmann::json& value);
  // The key's value, which must be `what`.
  const nlohmann::json& need(const std::string& key, Fits fits, const char* what) const;
  template <class T>
  std::vector<T> list(const std::string& key, Fits fits, const char* what) const;

  const nlohmann::json& json_;
  std::string file_, prefix_;
  mutable std::set<std::string> read_;
};

}  // namespace epsim
