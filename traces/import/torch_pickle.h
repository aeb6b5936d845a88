// The pickle inside a PyTorch file, read as data: nothing in it is ever run.
//
//   Models : numbers, texts, lists, tuples, dictionaries, collections.OrderedDict and tensors, as torch.save writes
//   them
//            with pickle protocol 2 to 5.
//   Refuses: every other opcode and every other global, by name: a pickle can otherwise name any function to be called.
//   Source : Python's pickletools.py (opcodes); torch/serialization.py and torch/_utils.py at PyTorch 2.x
//            (persistent ids of storages, _rebuild_tensor_v2).
//   Memory : up to kMostValues values of 16 bytes, and as much again for lists; whole numbers up to 2^18 are held once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace epsim {

enum class TorchElement { kF32, kF64, kI64, kI32, kI16, kI8, kU8, kBool };
int width_of(TorchElement element);

// A view of a storage, which is an entry of the archive.
struct TorchTensor {
  std::string storage;  // name of the entry below the archive's data/
  TorchElement element = TorchElement::kI64;
  std::int64_t storage_size = 0, offset = 0;  // elements
  std::vector<std::int64_t> shape, stride;    // elements
};

class TorchPickle {
 public:
  static constexpr std::size_t kMostValues = std::size_t{1} << 23;
  using Ref = std::uint32_t;  // of a value
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kList,
    kTuple,
    kDict,
    kGlobal,
    kStorage,
    kTensor
  };

  // Throws InputError naming `where`.
  TorchPickle(std::string where, std::string_view bytes);

  Ref root() const { return root_; }
  Kind kind(Ref value) const { return values_[value].kind; }
  std::int64_t integer(Ref value) const { return values_[value].number; }  // of kInt and kBool
  double real(Ref value) const { return values_[value].real; }             // of kFloat
  const std::string& text(Ref value) const { return texts_[index(value)]; }
  // Elements of a list or tuple; keys and values of a dictionary, in turn.
  const std::vector<Ref>& items(Ref value) const { return lists_[index(value)]; }
  const TorchTensor& tensor(Ref value) const { return tensors_[index(value)]; }
  // The value of a text key; null where the value is no dictionary, or has no such key.
  const Ref* find(Ref dictionary, std::string_view key) const;

 private:
  friend class TorchUnpickler;
  struct Value {
    Kind kind = Kind::kNone;
    union {
      std::int64_t number = 0;  // also an index into texts_, lists_, tensors_
      double real;
    };
  };
  std::size_t index(Ref value) const { return static_cast<std::size_t>(values_[value].number); }

  std::vector<Value> values_;
  std::vector<std::string> texts_;
  std::vector<std::vector<Ref>> lists_;
  std::vector<TorchTensor> tensors_;
  Ref root_ = 0;
};

}  // namespace epsim
