#include "traces/import/torch_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "sim/core/error.h"
#include "traces/import/zip_archive.h"

namespace epsim {

namespace {

using Kind = TorchPickle::Kind;
using Ref = TorchPickle::Ref;

constexpr std::int64_t kSmall = 1 << 18;  // whole numbers below are held once
constexpr std::size_t kMostDimensions = 8;
constexpr Ref kNoRef = std::numeric_limits<Ref>::max();

struct StorageType {
  std::string_view name;
  TorchElement element;
};
constexpr StorageType kStorages[] = {
    {"torch.FloatStorage", TorchElement::kF32}, {"torch.DoubleStorage", TorchElement::kF64},
    {"torch.LongStorage", TorchElement::kI64},  {"torch.IntStorage", TorchElement::kI32},
    {"torch.ShortStorage", TorchElement::kI16}, {"torch.CharStorage", TorchElement::kI8},
    {"torch.ByteStorage", TorchElement::kU8},   {"torch.BoolStorage", TorchElement::kBool}};
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

bool is_known(const std::string& global) {
  return global == kRebuildTensor || global == kOrderedDict ||
         std::any_of(std::begin(kStorages), std::end(kStorages), [&](const auto& s) { return s.name == global; });
}

}  // namespace

int width_of(TorchElement element) {
  switch (element) {
    case TorchElement::kF64:
    case TorchElement::kI64:
      return 8;
    case TorchElement::kF32:
    case TorchElement::kI32:
      return 4;
    case TorchElement::kI16:
      return 2;
    default:
      return 1;
  }
}

// The stack machine of a pickle, for the opcodes that data need.
class TorchUnpickler {
 public:
  TorchUnpickler(const std::string& where, std::string_view bytes, TorchPickle& out)
      : where_(where), bytes_(bytes), out_(out), small_(static_cast<std::size_t>(kSmall), kNoRef) {}

  void run() {
    while (!stopped_) {
      opcode_at_ = at_;
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (!number(opcode) && !text(opcode) && !container(opcode) && !memory(opcode) && !object(opcode)) {
        fail(
            fmt::format("pickle opcode 0x{:02x} is none of those that numbers, texts, lists, dictionaries and "
                        "tensors need; it is refused, and nothing of the file was run",
                        opcode));
      }
    }
    out_.root_ = pop();
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError({where_, 0, ""}, fmt::format("at byte {}: {}.", opcode_at_, problem));
  }
  void require(bool holds, const char* problem) const {
    if (!holds) {
      fail(problem);
    }
  }
  std::string_view take(std::uint64_t count) {
    require(count <= bytes_.size() - at_, "the pickle is cut off");
    const std::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }
  std::uint64_t take_number(int width) { return little_endian(take(static_cast<std::uint64_t>(width)).data(), width); }
  std::string take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    require(end != std::string_view::npos && end - at_ < 256, "the name of a global is cut off");
    std::string out(take(end - at_));
    take(1);
    return out;
  }

  void push(Ref value) {
    require(stack_.size() < 2 * TorchPickle::kMostValues, "its stack is too deep");
    stack_.push_back(value);
  }
  Ref pop() {
    require(!stack_.empty() && (marks_.empty() || stack_.size() > marks_.back()), "the pickle's stack is empty");
    const Ref out = stack_.back();
    stack_.pop_back();
    return out;
  }
  Ref top() const {
    require(!stack_.empty() && (marks_.empty() || stack_.size() > marks_.back()), "the pickle's stack is empty");
    return stack_.back();
  }
  std::vector<Ref> pop_to_mark() {
    require(!marks_.empty() && marks_.back() <= stack_.size(), "the pickle has no mark on its stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Ref> out(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return out;
  }
  Ref add(Kind kind, std::int64_t number) {
    require(out_.values_.size() < TorchPickle::kMostValues, "it holds more than 2^23 values; dump more often");
    TorchPickle::Value value;
    value.kind = kind;
    value.number = number;
    out_.values_.push_back(value);
    return static_cast<Ref>(out_.values_.size() - 1);
  }
  void push_integer(std::int64_t x) {
    if (x < 0 || x >= kSmall) {
      push(add(Kind::kInt, x));
      return;
    }
    Ref& known = small_[static_cast<std::size_t>(x)];
    known = known == kNoRef ? add(Kind::kInt, x) : known;
    push(known);
  }
  void push_text(Kind kind, std::string_view text) {
    out_.texts_.emplace_back(text);
    push(add(kind, static_cast<std::int64_t>(out_.texts_.size()) - 1));
  }
  void push_list(Kind kind, std::vector<Ref> items) {
    out_.lists_.push_back(std::move(items));
    push(add(kind, static_cast<std::int64_t>(out_.lists_.size()) - 1));
  }
  void append(Ref to, Kind kind, const std::vector<Ref>& items) {
    require(out_.kind(to) == kind, "the pickle adds elements to something that is no list or dictionary");
    require(kind != Kind::kDict || items.size() % 2 == 0, "a dictionary has a key without a value");
    std::vector<Ref>& list = out_.lists_[out_.index(to)];
    list.insert(list.end(), items.begin(), items.end());
  }

  bool number(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        push(add(Kind::kNone, 0));
        return true;
      case 0x88:
      case 0x89:
        push(add(Kind::kBool, opcode == 0x88 ? 1 : 0));
        return true;
      case 'K':
        push_integer(static_cast<std::int64_t>(take_number(1)));
        return true;
      case 'M':
        push_integer(static_cast<std::int64_t>(take_number(2)));
        return true;
      case 'J':
        push_integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(take_number(4))));
        return true;
      case 0x8a:
        push_integer(take_long());
        return true;
      case 'G':
        push(add(Kind::kFloat, 0));
        out_.values_.back().real = take_double();
        return true;
      default:
        return false;
    }
  }
  // Little-endian, two's complement, of as many bytes as the first byte says.
  std::int64_t take_long() {
    const auto count = static_cast<int>(take_number(1));
    require(count <= 8, "a whole number of more than 64 bits");
    if (count == 0) {
      return 0;
    }
    const std::uint64_t raw = take_number(count);
    const int unused = 64 - 8 * count;
    return static_cast<std::int64_t>(raw << unused) >> unused;
  }
  double take_double() {  // big-endian
    std::string raw(take(8));
    std::reverse(raw.begin(), raw.end());
    double out = 0;
    std::memcpy(&out, raw.data(), 8);
    return out;
  }
  bool text(unsigned char opcode) {
    switch (opcode) {
      case 'X':
        push_text(Kind::kText, take(take_number(4)));
        return true;
      case 0x8c:
        push_text(Kind::kText, take(take_number(1)));
        return true;
      case 0x8d:
        push_text(Kind::kText, take(take_number(8)));
        return true;
      default:
        return false;
    }
  }
  bool container(unsigned char opcode) {
    switch (opcode) {
      case '}':
      case ']':
      case ')':
        push_list(opcode == '}' ? Kind::kDict : opcode == ']' ? Kind::kList : Kind::kTuple, {});
        return true;
      case '(':
        require(marks_.size() < TorchPickle::kMostValues, "it has too many marks");
        marks_.push_back(stack_.size());
        return true;
      case 't':
        push_list(Kind::kTuple, pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple(opcode - 0x84U);
        return true;
      case 'a':
      case 's': {
        const std::vector<Ref> items = pop_last(opcode == 'a' ? 1 : 2);
        append(top(), opcode == 'a' ? Kind::kList : Kind::kDict, items);
        return true;
      }
      case 'e':
      case 'u': {
        const std::vector<Ref> items = pop_to_mark();
        append(top(), opcode == 'e' ? Kind::kList : Kind::kDict, items);
        return true;
      }
      default:
        return false;
    }
  }
  std::vector<Ref> pop_last(std::size_t count) {
    std::vector<Ref> items(count);
    for (std::size_t i = count; i-- > 0;) {
      items[i] = pop();
    }
    return items;
  }
  void push_tuple(std::size_t count) { push_list(Kind::kTuple, pop_last(count)); }

  bool memory(unsigned char opcode) {
    switch (opcode) {
      case 0x80:
        require(take_number(1) <= 5, "a pickle protocol above 5");
        return true;
      case 0x95:
        take_number(8);  // the size of a frame, which only helps to read ahead
        return true;
      case '.':
        stopped_ = true;
        return true;
      case 'q':
      case 'r':
        remember(take_number(opcode == 'q' ? 1 : 4));
        return true;
      case 0x94:
        remember(memo_.size());
        return true;
      case 'h':
      case 'j': {
        const std::uint64_t key = take_number(opcode == 'h' ? 1 : 4);
        require(key < memo_.size() && memo_[key] != kNoRef, "the pickle refers to a value that is not there");
        push(memo_[key]);
        return true;
      }
      default:
        return false;
    }
  }
  void remember(std::uint64_t key) {
    require(key < 2 * TorchPickle::kMostValues, "it remembers too many values");
    if (key >= memo_.size()) {
      memo_.resize(key + 1, kNoRef);
    }
    memo_[key] = top();
  }

  bool object(unsigned char opcode) {
    switch (opcode) {
      case 'c': {
        const std::string module = take_line();
        push_global(module + "." + take_line());
        return true;
      }
      case 0x93: {
        const Ref name = pop(), module = pop();
        require(out_.kind(name) == Kind::kText && out_.kind(module) == Kind::kText, "a global without a name");
        push_global(out_.text(module) + "." + out_.text(name));
        return true;
      }
      case 'Q':
        push_storage(pop());
        return true;
      case 'R': {
        const Ref arguments = pop(), callable = pop();
        require(out_.kind(callable) == Kind::kGlobal && out_.kind(arguments) == Kind::kTuple,
                "the pickle calls something that is no known global");
        call(out_.text(callable), out_.items(arguments));
        return true;
      }
      default:
        return false;
    }
  }
  void push_global(const std::string& name) {
    if (!is_known(name)) {
      fail(
          fmt::format("the pickle names the global {}, which no recording needs; it is refused, and nothing of the "
                      "file was run",
                      name.substr(0, 120)));
    }
    push_text(Kind::kGlobal, name);
  }
  // ('storage', type, name of the entry, device, elements)
  void push_storage(Ref id) {
    require(out_.kind(id) == Kind::kTuple && out_.items(id).size() == 5, "a persistent id that is no storage");
    const std::vector<Ref> parts = out_.items(id);
    require(out_.kind(parts[1]) == Kind::kGlobal && out_.kind(parts[2]) == Kind::kText &&
                out_.kind(parts[4]) == Kind::kInt && out_.integer(parts[4]) >= 0,
            "a persistent id that is no storage");
    const std::string& type = out_.text(parts[1]);
    const auto* const found =
        std::find_if(std::begin(kStorages), std::end(kStorages), [&](const auto& s) { return s.name == type; });
    require(found != std::end(kStorages), "a persistent id that is no storage");
    TorchTensor storage;
    storage.storage = out_.text(parts[2]);
    storage.element = found->element;
    storage.storage_size = out_.integer(parts[4]);
    push_tensor(Kind::kStorage, std::move(storage));
  }
  void push_tensor(Kind kind, TorchTensor tensor) {
    out_.tensors_.push_back(std::move(tensor));
    push(add(kind, static_cast<std::int64_t>(out_.tensors_.size()) - 1));
  }
  void call(const std::string& global, const std::vector<Ref>& arguments) {
    if (global == kOrderedDict) {
      require(arguments.empty(), "an OrderedDict that is made from something");
      push_list(Kind::kDict, {});
      return;
    }
    require(global == kRebuildTensor, "the pickle calls a storage type");
    // (storage, offset, shape, stride, requires_grad, hooks[, metadata])
    require(arguments.size() >= 6 && arguments.size() <= 7 && out_.kind(arguments[0]) == Kind::kStorage &&
                out_.kind(arguments[1]) == Kind::kInt,
            "a tensor that is described otherwise than by storage, offset, shape and stride");
    TorchTensor tensor = out_.tensor(arguments[0]);
    tensor.offset = out_.integer(arguments[1]);
    tensor.shape = whole_numbers(arguments[2]);
    tensor.stride = whole_numbers(arguments[3]);
    check(tensor);
    push_tensor(Kind::kTensor, std::move(tensor));
  }
  std::vector<std::int64_t> whole_numbers(Ref tuple) const {
    require(out_.kind(tuple) == Kind::kTuple && out_.items(tuple).size() <= kMostDimensions,
            "a tensor whose shape or stride is no tuple of a few whole numbers");
    std::vector<std::int64_t> out;
    for (const Ref item : out_.items(tuple)) {
      require(out_.kind(item) == Kind::kInt && out_.integer(item) >= 0, "a shape or stride that is no whole number");
      out.push_back(out_.integer(item));
    }
    return out;
  }
  // Every element lies within the storage, and there are no more elements than it has.
  void check(const TorchTensor& t) const {
    require(t.shape.size() == t.stride.size() && t.offset >= 0 && t.storage_size < std::int64_t{1} << 48,
            "a tensor whose shape and stride differ");
    double elements = 1, last = static_cast<double>(t.offset);
    for (std::size_t d = 0; d < t.shape.size(); ++d) {
      elements *= static_cast<double>(t.shape[d]);
      last += static_cast<double>(t.stride[d]) * std::max(0.0, static_cast<double>(t.shape[d]) - 1);
    }
    const auto size = static_cast<double>(t.storage_size);
    require(elements == 0 || (elements <= size && last < size), "a tensor that reaches beyond its storage");
  }

  const std::string& where_;
  std::string_view bytes_;
  TorchPickle& out_;
  std::vector<Ref> small_, stack_, memo_;
  std::vector<std::size_t> marks_;
  std::size_t at_ = 0, opcode_at_ = 0;
  bool stopped_ = false;
};

TorchPickle::TorchPickle(std::string where, std::string_view bytes) { TorchUnpickler(where, bytes, *this).run(); }

const TorchPickle::Ref* TorchPickle::find(Ref dictionary, std::string_view key) const {
  if (kind(dictionary) != Kind::kDict) {
    return nullptr;
  }
  const std::vector<Ref>& all = items(dictionary);
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
    if (kind(all[i]) == Kind::kText && text(all[i]) == key) {
      return &all[i + 1];
    }
  }
  return nullptr;
}

}  // namespace epsim
