#include "traces/requests/json_documents.h"

#include <fmt/format.h>

#include <string_view>

namespace epsim {

// Gives out `current_` and makes the next byte current. The first call makes '[' current.
void JsonDocuments::advance() {
  taken_line_ = current_line_;
  if (!started_) {
    started_ = true;
    return;
  }
  if (!pending_.empty()) {
    current_ = pending_.back();
    pending_.pop_back();
    return;
  }
  const int c = input_.next();
  current_line_ = input_.line();
  if (c == ByteInput::kEnd) {
    ended_ = closed_;
    closed_ = true;
    current_ = ']';
    return;
  }
  current_ = static_cast<char>(c);
  if (++run_ > kMaxToken) {
    input_.fail("a single value goes on for more than 4 MiB; this is not a file of the expected kind.");
  }
  if (!in_string_) {
    outside_strings(c);
  } else if (escaped_) {
    escaped_ = false;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    in_string_ = false;
  }
}

void JsonDocuments::outside_strings(int c) {
  switch (c) {
    case '"':
      in_string_ = true;
      break;
    case '{':
    case '[':
      if (depth_ == kMaxDepth) {
        input_.fail(
            fmt::format("this nests deeper than {} levels; this is not a file of the expected kind.", kMaxDepth));
      }
      // The start of a document; a comma goes ahead of all but the first.
      if (depth_++ == 0 && documents_++ > 0) {
        pending_.push_back(current_);
        current_ = ',';
      }
      run_ = 0;
      break;
    case '}':
    case ']':
      if (depth_ == 0) {
        input_.fail("this closes a bracket that was not opened.");
      }
      --depth_;
      run_ = 0;
      break;
    case ',':
      if (depth_ == 0) {
        input_.fail("a comma between documents; JSON lines are separated by line ends.");
      }
      run_ = 0;
      break;
    case ':':
      run_ = 0;
      break;
    case 'N':
      expect_word("aN", "null");
      break;
    case 'I':
      expect_word("nfinity", "null");
      break;
    default:
      break;
  }
}

// Reads the rest of Python's word and gives out JSON's in its place. A minus sign ahead of it is left standing, which
// makes -Infinity a syntax error: nothing that is read here may be minus infinity.
void JsonDocuments::expect_word(const char* rest, const char* replacement) {
  for (const char* c = rest; *c != '\0'; ++c) {
    if (input_.next() != *c) {
      input_.fail("this is no JSON value.");
    }
  }
  const std::string_view word(replacement);
  current_ = word.front();
  pending_.assign(word.rbegin(), word.rend() - 1);
}

}  // namespace epsim
