// The project's own format, as bytes and by its structure.
#include <hdf5.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/choices.h"
#include "tests/fuzz/input_folder.h"
#include "tests/fuzz/read_trace.h"
#include "tests/fuzz/targets.h"

namespace epsim::fuzz {

namespace {

// Any bytes are read as a trace, or end in an InputError.
void trace_file(const std::string& bytes) {
  static const InputFolder folder;
  read_trace(folder.write("input.h5", bytes));
}

constexpr std::array<std::int64_t, 12> kNumbers = {1, 2, 0, 3, 4, -1, 64, 256, 65536, 2147483647, INT64_MAX, INT64_MIN};
constexpr std::array<hsize_t, 12> kLengths = {
    2, 1, 3, 0, 4, 16, 255, 256, 1 << 16, hsize_t{1} << 31, hsize_t{1} << 40, hsize_t{1} << 62};
// What is written: of small data sets alone.
constexpr hsize_t kFewValues = 4096;

// As FORMAT.md has it: value i is first + i % turn.
struct Named {
  const char* name;
  hid_t type;
  std::vector<hsize_t> dims;
  std::size_t first = 0, turn = 1000;
};

// Of any kind, those of FORMAT.md among them.
hid_t other_type(Choices& choices) {
  const std::array types = {H5T_STD_I64LE, H5T_STD_U8LE,   H5T_STD_U16LE,  H5T_STD_U32LE,   H5T_STD_U64LE,
                            H5T_STD_I32BE, H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_REF_OBJ, H5T_STD_B8LE};
  return choices.of(types);
}

hid_t text_type(std::size_t size) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, size);
  return type;
}

void put_text(hid_t file, const char* name, const std::string& text) {
  const hid_t type = text_type(std::max<std::size_t>(1, text.size())), space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, text.empty() ? "\0" : text.data());
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

void put_numbers(hid_t file, const char* name, const std::vector<std::int64_t>& values) {
  const hsize_t count = values.size();
  const hid_t space = values.size() == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr);
  const hid_t attribute = H5Acreate2(file, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, H5T_NATIVE_INT64, values.data());
  H5Aclose(attribute);
  H5Sclose(space);
}

// Each as FORMAT.md has it in half of the cases; else missing, of another type, or with an odd value.
void put_attributes(hid_t file, Choices& choices) {
  constexpr std::array texts = {"format",           "model", "source",          "licence",
                                "recipe",           "units", "requests_source", "load_rows_columns",
                                "sequences_columns"};
  constexpr std::array values = {"epsim-trace", "olmoe", "", "", "", "", "a test", "step", "label"};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t choice = choices.below(8);
    if (choice == 7) {
      put_numbers(file, texts[i], {choices.of(kNumbers)});
    } else if (choice < 6) {
      put_text(file, texts[i], choice == 5 ? std::string(choices.below(64), 'x') : values[i]);
    }
  }
  constexpr std::array numbers = {"format_version", "model_layers",        "experts",       "top_k", "shared_experts",
                                  "layer_numbers",  "prefix_block_tokens", "prefix_answers"};
  constexpr std::array<std::int64_t, 8> usual = {1, 2, 4, 2, 0, 0, 16, 1};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t choice = choices.below(8);
    const bool list = std::strcmp(numbers[i], "layer_numbers") == 0;
    if (choice == 7) {
      put_text(file, numbers[i], "1");
    } else if (choice == 5) {
      put_numbers(file, numbers[i], {choices.of(kNumbers), choices.of(kNumbers)});
    } else if (choice < 5) {
      put_numbers(file, numbers[i],
                  list ? std::vector<std::int64_t>{0, 1} : std::vector{choice == 4 ? choices.of(kNumbers) : usual[i]});
    }
  }
}

void fill(hid_t set, hid_t type, hsize_t count, const Named& usual, Choices& choices) {
  const std::size_t width = H5Tget_size(type);
  std::vector<std::uint8_t> bytes(count * width);
  const bool odd = choices.below(4) == 3;
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i * width] =
        static_cast<std::uint8_t>(odd && !choices.done() ? choices.below(256) : usual.first + i % usual.turn);
  }
  H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
}

void put_dataset(hid_t file, const Named& usual, Choices& choices) {
  const hid_t type = choices.below(4) == 3
                         ? (choices.below(2) == 0 ? text_type(1 + choices.below(20)) : H5Tcopy(other_type(choices)))
                         : H5Tcopy(usual.type);
  const int rank = static_cast<int>(choices.below(8) == 7 ? choices.below(5) : usual.dims.size());
  std::vector<hsize_t> dims, chunk;
  hsize_t count = 1;
  for (int d = 0; d < rank; ++d) {
    const hsize_t own = static_cast<std::size_t>(d) < usual.dims.size() ? usual.dims[static_cast<std::size_t>(d)] : 2;
    dims.push_back(choices.below(8) == 7 ? choices.of(kLengths) : own);
    chunk.push_back(std::max<hsize_t>(1, std::min<hsize_t>(dims.back(), 1 + choices.below(64))));
    count = std::min(count, kFewValues + 1) * std::min(dims.back(), kFewValues + 1);
  }
  const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, dims.data(), nullptr);
  const hid_t how = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const std::size_t storage = choices.below(4);
  if (rank > 0 && (storage > 0 || count > kFewValues)) {
    H5Pset_chunk(how, rank, chunk.data());
    if (storage > 1) {
      H5Pset_shuffle(how);
      H5Pset_deflate(how, 1);
    }
    if (storage > 2) {
      H5Pset_fletcher32(how);
    }
  }
  if (const hid_t set = H5Dcreate2(file, usual.name, type, space, links, how, H5P_DEFAULT); set >= 0) {
    if (count > 0 && count <= kFewValues) {
      fill(set, type, count, usual, choices);
    }
    H5Dclose(set);
  }
  H5Pclose(links);
  H5Pclose(how);
  H5Sclose(space);
  H5Tclose(type);
}

// The input chooses which attributes and data sets a file has, of which type, shape, storage and values, and the HDF5
// library writes them. Bytes that are damaged at random seldom pass the library's own checks.
void trace_shapes(const std::string& bytes) {
  static const InputFolder folder;
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  Choices choices(bytes);
  const std::filesystem::path path = folder.write("input.h5", "");
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  put_attributes(file, choices);
  const std::array sets = {Named{"/loads/counts", H5T_STD_U32LE, {2, 2, 1, 4}},
                           Named{"/loads/tokens", H5T_STD_I64LE, {2, 1}},
                           Named{"/load_rows/step", H5T_STD_I64LE, {2}},
                           Named{"/tokens/experts", H5T_STD_U8LE, {4, 2, 2}, 0, 2},
                           Named{"/tokens/weights", H5T_IEEE_F32LE, {4, 2, 2}},
                           Named{"/tokens/sequence", H5T_STD_I32LE, {4}, 0, 1},
                           Named{"/tokens/position", H5T_STD_I32LE, {4}},
                           Named{"/sequences/label", H5T_STD_I64LE, {1}},
                           Named{"/requests/arrival_ps", H5T_STD_I64LE, {2}},
                           Named{"/requests/input_tokens", H5T_STD_I64LE, {2}, 1},
                           Named{"/requests/output_tokens", H5T_STD_I64LE, {2}, 1},
                           Named{"/requests/prefix_start", H5T_STD_I64LE, {3}},
                           Named{"/requests/prefix_blocks", H5T_STD_I64LE, {2}}};
  for (const Named& set : sets) {
    if (choices.below(8) < 7) {
      put_dataset(file, set, choices);
    }
  }
  H5Fclose(file);
  read_trace(path);
}

constexpr Target kTraceTargets[] = {{"trace_file", trace_file}, {"trace_shapes", trace_shapes}};

}  // namespace

std::span<const Target> trace_targets() { return kTraceTargets; }

}  // namespace epsim::fuzz
