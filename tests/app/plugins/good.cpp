// A plug-in that works: experts dealt out like cards, expert e on GPU e mod G, starting at GPU `first`.
#include "policies/plugin/plugin.h"

namespace {

class Cards final : public epsim::plugin::Policy {
 public:
  explicit Cards(epsim::plugin::Options& options)
      : first_(options.whole("first", 0)),
        share_(options.number("share", 1.0)),
        reverse_(options.flag("reverse", false)),
        word_(options.text("word", "none")) {}

  epsim::plugin::Plan plan(const epsim::plugin::Loads& loads, const epsim::plugin::Shape& shape) const override {
    epsim::plugin::Plan out;
    for (int l = 0; l < loads.layers(); ++l) {
      epsim::plugin::LayerSlots slots(static_cast<std::size_t>(shape.gpus));
      for (int i = 0; i < loads.experts(); ++i) {
        const int e = reverse_ ? loads.experts() - 1 - i : i;
        slots[static_cast<std::size_t>((i + first_) % shape.gpus)].push_back(e);
      }
      out.push_back(std::move(slots));
    }
    return out;
  }

 private:
  long long first_;
  double share_;
  bool reverse_;
  std::string word_;
};

}  // namespace

EPSIM_PLUGIN(Cards, "cards", "Experts dealt out like cards.")
