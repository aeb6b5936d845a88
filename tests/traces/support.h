// What the tests of traces/ share: inputs from text, small models, and the message of the error that a call ends with.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/core/config.h"
#include "sim/core/error.h"
#include "sim/domain/moe_spec.h"

namespace epsim::test {

inline void write_text(const std::filesystem::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary) << content;
}

inline void write_gzip(const std::filesystem::path& file, const std::string& content) {
  gzFile out = gzopen(file.c_str(), "wb");
  gzwrite(out, content.data(), static_cast<unsigned>(content.size()));
  gzclose(out);
}

inline std::string gzipped(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// The InputError that `call` throws; fails (with an empty place and message) when it throws none.
template <class Call>
InputError input_error(Call call) {
  try {
    call();
  } catch (const InputError& e) {
    return e;
  }
  return InputError({}, "");
}
template <class Call>
std::string message(Call call) {
  return input_error(call).what();
}
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The figures of a model that load readers use.
inline MoeSpec small_model(int layers, int first_dense, int experts, int top_k) {
  MoeSpec m;
  m.name = "toy";
  m.layers = layers;
  m.first_dense_layers = first_dense;
  m.experts = experts;
  m.top_k = top_k;
  return m;
}
inline MoeSpec deepseek_r1_shape() {
  MoeSpec m = small_model(61, 3, 256, 8);
  m.name = "deepseek-r1";
  return m;
}

}  // namespace epsim::test
