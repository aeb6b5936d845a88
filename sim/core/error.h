// Errors that a user can mend. The message is for people, the fields are for tests.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

// Where in the user's input something is wrong. `file` and `key` may be empty, `line` 0 when it is not known.
struct InputPlace {
  std::string file;
  int line = 0;
  std::string key;
};

// Bad input: exit code 2. `problem` says what was wrong and what is allowed, as whole sentences.
struct InputError : std::runtime_error {
  InputError(InputPlace at, const std::string& problem);
  InputPlace place;
  std::string problem;

 protected:
  InputError(const std::string& text, InputPlace at, const std::string& problem);
};

// Several errors of one input, in the order given. `place` and `problem` are those of the first.
struct InputErrors : InputError {
  explicit InputErrors(std::vector<InputError> errors);
  std::vector<InputError> all;
};

// Throws what `errors` holds: nothing, the one error, or all of them as InputErrors.
void throw_all(std::vector<InputError> errors);

// A run that failed although its input was acceptable (a full disk, say): exit code 1.
struct RunFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A plan or a model that does not fit into a GPU's memory.
struct DoesNotFit : InputError {
  // `copies`: fewer copies of experts would make room, too.
  DoesNotFit(int gpu_index, Bytes needed, Bytes available, const std::string& what, bool copies = true);
  DoesNotFit(const DoesNotFit& misfit, const std::string& more);  // the same, with `more` said of it
  int gpu;
  Bytes need, have;
};

// The message for a name that is not in `known`: lists every valid name, the nearest first.
std::string unknown_name(const std::string& kind, const std::string& given, const std::vector<std::string>& known);

// The name in `known` that `given` is most likely a misspelling of: up to two edits apart, with two characters or more
// left as they were. std::nullopt when there is none.
std::optional<std::string> misspelling(const std::string& given, const std::vector<std::string>& known);

// Number of single-character edits between two words.
int edit_distance(const std::string& a, const std::string& b);

}  // namespace epsim
