// A file that torch.save wrote (its zip format, PyTorch 1.6 and later): the pickle, and tensors read from the file as
// they are needed.
#pragma once

#include <optional>

#include "traces/import/torch_pickle.h"
#include "traces/import/zip_archive.h"

namespace epsim {

class TorchFile {
 public:
  // Throws InputError: no such archive, a byte order other than little, a pickle that is refused (torch_pickle.h).
  explicit TorchFile(const std::filesystem::path& file);

  const std::string& name() const { return name_; }
  const TorchPickle& pickle() const { return *pickle_; }

  // Part of a tensor: `rows` by `columns` elements from `first` (elements from the start of the storage), a stride
  // each. Row by row into `out`, as doubles: throws InputError on whole numbers above 2^53.
  struct Part {
    std::int64_t first = 0, rows = 1, row_stride = 0, columns = 1, column_stride = 1;
  };
  void read(const TorchTensor& tensor, const Part& part, std::vector<double>& out);

  [[noreturn]] void fail(const std::string& problem) const;

 private:
  const ZipArchive::Entry* entry(const std::string& name) const;

  std::string name_;
  ZipArchive archive_;
  std::string folder_;  // of the archive's entries, with its slash
  std::optional<TorchPickle> pickle_;
  std::string raw_;
};

}  // namespace epsim
