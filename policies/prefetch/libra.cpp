#include "policies/prefetch/libra.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "policies/token_sharding/libra.h"
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
    const int cap = (options_.n_extra - options_.n_local) * held_.gpus;
    if (options_.relief == LibraRelief::kSimulated) {
      relieve_by_simulation(cap);
      return std::move(held_);
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

  // The lightest GPU that could still take a copy of the expert; -1 when there is none.
  template <class Load>
  int lightest_for(int expert, Load load) const {
    int to = -1;
    for (int g = 0; g < held_.gpus; ++g) {
      const bool room = !held_.holds(expert, g) && extras_[static_cast<std::size_t>(g)] < options_.n_extra;
      if (room && (to < 0 || load(g) < load(to))) {
        to = g;
      }
    }
    return to;
  }

  // Phase 2 with the rebalancer at work after every copy.
  void relieve_by_simulation(int cap) {
    LibraRebalancer loads(requests_, held_, {});
    loads.run();
    for (int i = 0; i < cap; ++i) {
      int busiest = 0;
      for (int g = 1; g < held_.gpus; ++g) {
        busiest = loads.load(g) > loads.load(busiest) ? g : busiest;
      }
      if (static_cast<double>(loads.load(busiest)) <= loads.target() || !relieve(busiest, loads)) {
        return;
      }
    }
  }

  bool relieve(int busiest, LibraRebalancer& loads) {
    std::vector<int> hot;
    for (int e = 0; e < held_.experts(); ++e) {
      if (loads.remote(busiest, e) > 0) {
        hot.push_back(e);
      }
    }
    std::stable_sort(hot.begin(), hot.end(),
                     [&](int a, int b) { return loads.remote(busiest, a) > loads.remote(busiest, b); });
    if (options_.literal && hot.size() > 1) {
      hot.erase(hot.begin() + 1, hot.end());
    }
    for (const int e : hot) {
      const int to = lightest_for(e, [&](int g) { return loads.load(g); });
      const std::int64_t own = to < 0 ? 0 : requests_.at(to, e);
      if (to < 0 || loads.load(to) + std::max<std::int64_t>(own, 1) > static_cast<std::int64_t>(loads.target())) {
        continue;  // nobody can hold it, or it would be overfull with what becomes local alone
      }
      bring(e, to);
      loads.copy_added(e, to);
      loads.run();
      return true;
    }
    return false;
  }

  bool copy_to_lightest(int expert, int from) {
    const int to = lightest_for(expert, [&](int g) { return load_[static_cast<std::size_t>(g)]; });
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
