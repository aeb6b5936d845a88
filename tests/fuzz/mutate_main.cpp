// Runs a fuzz target without libFuzzer: the seeds as they are, then --runs=N inputs made from them by random edits. The
// stream is fixed, so that a failure happens again; the input it happens on is left in fuzz-crash-input.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "sim/core/rng.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using epsim::RandomStream;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string read_whole(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t place(RandomStream& random, const std::string& text) {
  return static_cast<std::size_t>(random.below(text.size() + 1));
}

void edit(std::string& text, const std::vector<std::string>& seeds, RandomStream& random) {
  static constexpr const char* kPieces[] = {"-1", "nan", "1e999", "9223372036854775808", "\"", "[", "]",
                                            ",",  "\n",  "\0"};
  const std::size_t at = place(random, text), length = static_cast<std::size_t>(random.below(8)) + 1;
  switch (random.below(7)) {
    case 0:  // a bit
      if (at < text.size()) {
        text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      }
      break;
    case 1:  // a byte
      if (at < text.size()) {
        text[at] = static_cast<char>(random.below(256));
      }
      break;
    case 2:
      text.erase(std::min(at, text.size()), length);
      break;
    case 3:
      text.insert(at, kPieces[random.below(std::size(kPieces))]);
      break;
    case 4:  // a piece of itself again
      text.insert(at, text.substr(place(random, text), length * 4));
      break;
    case 5: {  // the rest of another seed
      const std::string& other = seeds[random.below(seeds.size())];
      text = text.substr(0, at) + other.substr(place(random, other));
      break;
    }
    default:
      text.resize(at);
  }
}

}  // namespace

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  std::uint64_t runs = 10000;
  std::set<std::filesystem::path> files;  // in a fixed order
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--runs=", 7) == 0) {
      runs = std::stoull(argv[i] + 7);
    } else {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
        files.insert(entry.path());
      }
    }
  }
  std::vector<std::string> seeds;
  for (const std::filesystem::path& file : files) {
    seeds.push_back(read_whole(file));
    run(seeds.back());
  }
  if (seeds.empty()) {
    std::cerr << "no seeds: name the folder of the corpus\n";
    return 1;
  }
  RandomStream random(epsim::Seed{1}, "fuzz");
  const std::filesystem::path crash = std::filesystem::temp_directory_path() / "fuzz-crash-input";
  for (std::uint64_t r = 0; r < runs; ++r) {
    std::string input = seeds[random.below(seeds.size())];
    for (std::uint64_t edits = random.below(6) + 1; edits > 0; --edits) {
      edit(input, seeds, random);
    }
    try {
      run(input);
    } catch (const std::exception& e) {
      std::ofstream(crash, std::ios::binary) << input;
      std::cerr << "run " << r << ": " << e.what() << "\ninput left in " << crash << '\n';
      return 1;
    }
  }
  std::cout << seeds.size() << " seeds and " << runs << " mutations\n";
  return 0;
}
