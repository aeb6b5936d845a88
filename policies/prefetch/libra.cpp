#include "policies/prefetch/libra.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/core/check.h"

namespace epsim {
namespace {

class LibraPlanner {
 public:
  LibraPlanner(const RequestMatrix& predicted, const Residency& home, const LibraPrefetchOptions& options)
      : requests_(predicted), options_(options), held_(home), extras_(static_cast<std::size_t>(home.gpus), 0) {}

  Residency plan() {
    for (int g = 0; g < held_.gpus; ++g) {
      bring_local_experts(g);
    }
    const TokenAssignment start = local_or_home(requests_, held_);
    for (int g = 0; g < held_.gpus; ++g) {
      load_.push_back(start.of_gpu(g));
    }
    remote_.resize(static_cast<std::size_t>(held_.experts()));
    for (int e = 0; e < held_.experts(); ++e) {
      remote_[static_cast<std::size_t>(e)] = start.at(held_.home_of(e), e) - requests_.at(held_.home_of(e), e);
    }
    target_ = static_cast<double>(requests_.total()) / held_.gpus;
    const int cap = (options_.n_extra - options_.n_local) * held_.gpus;
    for (int i = 0; i < cap && relieve_busiest(); ++i) {
    }
    return std::move(held_);
  }

 private:
  // Phase 1: the remote experts that this GPU's tokens ask for most.
  void bring_local_experts(int gpu) {
    std::vector<int> wanted;
    for (int e = 0; e < held_.experts(); ++e) {
      if (!held_.holds(e, gpu) && requests_.at(gpu, e) > 0) {
        wanted.push_back(e);
      }
    }
    const auto count = std::min(std::ssize(wanted), static_cast<std::ptrdiff_t>(options_.n_local));
    std::partial_sort(wanted.begin(), wanted.begin() + count, wanted.end(), [&](int a, int b) {
      const std::int64_t x = requests_.at(gpu, a), y = requests_.at(gpu, b);
      return x != y ? x > y : a < b;
    });
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      bring(wanted[static_cast<std::size_t>(i)], gpu);
    }
  }

  void bring(int expert, int gpu) {
    held_.add(expert, gpu);
    ++extras_[static_cast<std::size_t>(gpu)];
  }

  // Phase 2, one round: false when the busiest GPU is not above the target or cannot be relieved.
  bool relieve_busiest() {
    const auto busiest = static_cast<int>(std::max_element(load_.begin(), load_.end()) - load_.begin());
    if (static_cast<double>(load_[static_cast<std::size_t>(busiest)]) <= target_) {
      return false;
    }
    std::vector<int> hot;
    for (int e = 0; e < held_.experts(); ++e) {
      if (held_.home_of(e) == busiest && remote_[static_cast<std::size_t>(e)] > 0) {
        hot.push_back(e);
      }
    }
    std::stable_sort(hot.begin(), hot.end(), [&](int a, int b) {
      return remote_[static_cast<std::size_t>(a)] > remote_[static_cast<std::size_t>(b)];
    });
    if (options_.literal && hot.size() > 1) {
      hot.erase(hot.begin() + 1, hot.end());
    }
    return std::any_of(hot.begin(), hot.end(), [&](int e) { return copy_to_lightest(e, busiest); });
  }

  bool copy_to_lightest(int expert, int from) {
    int to = -1;
    for (int g = 0; g < held_.gpus; ++g) {
      const auto at = static_cast<std::size_t>(g);
      if (!held_.holds(expert, g) && extras_[at] < options_.n_extra &&
          (to < 0 || load_[at] < load_[static_cast<std::size_t>(to)])) {
        to = g;
      }
    }
    if (to < 0) {
      return false;
    }
    std::int64_t& load = load_[static_cast<std::size_t>(to)];
    const auto room = static_cast<std::int64_t>(std::floor(target_ - static_cast<double>(load)));
    std::int64_t moved = requests_.at(to, expert);
    if (moved > room) {
      return false;
    }
    if (options_.relief == LibraRelief::kRebalanced) {
      moved = std::min(remote_[static_cast<std::size_t>(expert)], room);
      if (moved == 0) {
        return false;
      }
    }
    bring(expert, to);
    load += moved;
    load_[static_cast<std::size_t>(from)] -= moved;
    remote_[static_cast<std::size_t>(expert)] -= moved;
    return true;
  }

  const RequestMatrix& requests_;
  LibraPrefetchOptions options_;
  Residency held_;
  std::vector<int> extras_;           // [GPU] experts brought in
  std::vector<std::int64_t> load_;    // [GPU]
  std::vector<std::int64_t> remote_;  // [expert] requests that travel to its home
  double target_ = 0;
};

}  // namespace

int libra_local_count(int n_extra, double alpha) { return static_cast<int>(std::floor(n_extra * alpha + 0.5)); }

int libra_extra_for_window(Bytes expert, BytesPerSecond rate, Seconds window, int limit) {
  const double fits = std::floor(window / (expert / rate));
  return fits >= limit ? limit : static_cast<int>(fits);
}

Residency libra_prefetch(const RequestMatrix& predicted, const Residency& home, const LibraPrefetchOptions& options) {
  EPSIM_CHECK(predicted.gpus == home.gpus && predicted.experts == home.experts(), "requests and homes have one shape");
  EPSIM_CHECK(options.n_local >= 0 && options.n_local <= options.n_extra, "L is between 0 and N");
  return LibraPlanner(predicted, home, options).plan();
}

}  // namespace epsim
