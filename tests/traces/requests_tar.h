// Tar archives for tests, made in memory.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

namespace epsim::test {

// One entry: a ustar header with a right checksum, and the content padded to blocks of 512 bytes.
inline std::string tar_entry(const std::string& name, const std::string& content, char type = '0') {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { block.replace(at, text.size(), text); };
  const auto octal = [](std::size_t value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*zo", digits, value);
    return std::string(text);
  };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, octal(content.size(), 11));
  put(136, "00000000000");
  put(148, "        ");
  block[156] = type;
  put(257, "ustar");
  put(263, "00");
  std::size_t sum = 0;
  for (const char c : block) {
    sum += static_cast<unsigned char>(c);
  }
  put(148, octal(sum, 6) + '\0' + ' ');
  return block + content + std::string((512 - content.size() % 512) % 512, '\0');
}
inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace epsim::test
