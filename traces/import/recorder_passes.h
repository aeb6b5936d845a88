// The modes per_pass and per_token of SGLang's recorder: a list of forward passes of one rank.
#pragma once

#include <vector>

#include "traces/import/import_options.h"
#include "traces/import/torch_file.h"

namespace epsim {

// What both modes share: the records, and which logical expert each physical one is, by the dump's
// last_physical_to_logical_map; that is right where the placement did not change during the recording.
class RecorderPasses {
 public:
  // The root of `file` has `records`. Throws InputError, as all others do, naming what is wrong.
  explicit RecorderPasses(TorchFile& file);

  TorchFile& file() const { return file_; }
  const std::vector<TorchPickle::Ref>& records() const { return records_; }
  std::int64_t layers() const { return layers_; }  // of the model
  std::int64_t physical() const { return physical_; }
  int experts() const { return experts_; }
  int logical(std::int64_t layer, std::int64_t physical) const {
    return static_cast<int>(logical_[static_cast<std::size_t>(layer * physical_ + physical)]);
  }

  const TorchTensor& tensor(TorchPickle::Ref dictionary, const char* key, std::size_t dims) const;
  // All of a tensor of two dimensions.
  void read(const TorchTensor& tensor, std::vector<double>& out) const;
  // A whole number of a record.
  std::int64_t number(TorchPickle::Ref record, const char* key) const;
  // A list of whole numbers from 0 to 2^31 - 1; empty where it is None or absent.
  std::vector<std::int64_t> numbers(TorchPickle::Ref record, const char* key) const;

 private:
  TorchFile& file_;
  const TorchPickle& pickle_;
  std::vector<TorchPickle::Ref> records_;
  std::int64_t layers_ = 0, physical_ = 0;
  int experts_ = 0;
  std::vector<double> logical_;  // [layer][physical]
};

// A load row per pass.
void import_pass_counts(const std::filesystem::path& file, const RecorderPasses& passes, ImportOptions options,
                        TraceSink& sink);
// The tokens of every pass.
void import_pass_tokens(const std::filesystem::path& file, const RecorderPasses& passes, ImportOptions options,
                        TraceSink& sink);

// The numbers of the layers that have anything. Throws InputError when none has.
std::vector<int> layers_that(const std::vector<bool>& has, const TorchFile& file);

}  // namespace epsim
