// A placement policy that epsim does not have: the hottest experts get a copy, then all copies are dealt out in a
// snake, from the first GPU to the last and back again, the heaviest first.
#include <epsim/plugin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace {

class Snake final : public epsim::plugin::Policy {
 public:
  explicit Snake(epsim::plugin::Options& options) : copies_per_gpu_(options.whole("copies_per_gpu", 1)) {
    if (copies_per_gpu_ < 0) {
      throw epsim::plugin::BadOption("copies_per_gpu", "the number of extra copies must not be negative.");
    }
  }

  epsim::plugin::Plan plan(const epsim::plugin::Loads& loads, const epsim::plugin::Shape& shape) const override {
    if (loads.experts() % shape.gpus != 0) {
      throw std::invalid_argument("a snake needs experts that divide over the GPUs.");
    }
    epsim::plugin::Plan out;
    for (int l = 0; l < loads.layers(); ++l) {
      out.push_back(deal(loads.layer(l), shape.gpus));
    }
    return out;
  }

 private:
  epsim::plugin::LayerSlots deal(std::vector<double> load, int gpus) const {
    std::vector<std::int32_t> hottest(load.size());
    std::iota(hottest.begin(), hottest.end(), 0);
    const auto heavier = [&](std::int32_t a, std::int32_t b) {
      return load[static_cast<std::size_t>(a)] > load[static_cast<std::size_t>(b)];
    };
    std::stable_sort(hottest.begin(), hottest.end(), heavier);
    const auto extra = std::min(load.size(), static_cast<std::size_t>(copies_per_gpu_ * gpus));
    std::vector<std::int32_t> cards = hottest;
    for (std::size_t i = 0; i < extra; ++i) {
      cards.push_back(hottest[i]);
      load[static_cast<std::size_t>(hottest[i])] /= 2;
    }
    std::stable_sort(cards.begin(), cards.end(), heavier);
    epsim::plugin::LayerSlots slots(static_cast<std::size_t>(gpus));
    const auto width = slots.size();
    for (std::size_t i = 0; i < cards.size(); ++i) {
      const std::size_t place = i % width;
      slots[i / width % 2 == 0 ? place : width - 1 - place].push_back(cards[i]);
    }
    return slots;
  }

  long long copies_per_gpu_;
};

}  // namespace

EPSIM_PLUGIN(Snake, "snake", "The hottest experts get a second copy, then all are dealt out in a snake.")
