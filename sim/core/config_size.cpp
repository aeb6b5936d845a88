#include "sim/core/config_size.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <vector>

#include "sim/core/limits.h"

namespace epsim {
namespace {

// Values and levels of the parts that are open, and of those that an anchor names.
class SizeOfEvents final : public YAML::EventHandler {
 public:
  explicit SizeOfEvents(const std::string& name) : name_(name) {}
  // yaml-cpp finds empty documents without end where it does not read on, as before a comma that nothing opened.
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == document_) {
      throw InputError({name_, mark.line + 1, ""}, "this is not valid YAML: nothing can begin with this character.");
    }
    document_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string&) override {
    leaf(mark, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = named_.find(anchor);  // none: it lies within what it names
    if (found == named_.end()) {
      throw InputError({name_, mark.line + 1, ""}, "this alias is inside the anchor that it repeats.");
    }
    add(mark, found->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Size {
    std::int64_t values = 1, levels = 1;
  };
  struct Open {
    YAML::anchor_t anchor = 0;
    Size size;
    YAML::Mark mark;
  };

  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor) {
    add(mark, {});
    if (anchor != 0) {
      named_[anchor] = {};
    }
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor) {
    open_.push_back({anchor, {}, mark});
    check(mark, {0, static_cast<std::int64_t>(open_.size())});
  }
  void close() {
    const Open done = open_.back();
    open_.pop_back();
    if (done.anchor != 0) {
      named_[done.anchor] = done.size;
    }
    // Its values were checked as they came, and are part of what is around it now.
    if (!open_.empty()) {
      add(done.mark, done.size);
    }
  }
  void add(const YAML::Mark& mark, const Size& part) {
    if (open_.empty()) {
      return;  // the document is this one value
    }
    Size& around = open_.back().size;
    around.values += part.values;
    around.levels = std::max(around.levels, part.levels + 1);
    check(mark, {around.values, around.levels + static_cast<std::int64_t>(open_.size()) - 1});
  }
  void check(const YAML::Mark& mark, const Size& size) const {
    check_limit(limits::kYamlValues, size.values, {name_, mark.line + 1, ""});
    check_limit(limits::kDepth, size.levels, {name_, mark.line + 1, ""});
  }

  const std::string& name_;
  int document_ = -1;  // where the last one began
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Size> named_;
};

}  // namespace

void check_yaml_size(const std::string& text, const std::string& name) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  SizeOfEvents sizes(name);
  while (parser.HandleNextDocument(sizes)) {
  }
}

}  // namespace epsim
