// A GPU of fibers: runs a kernel of calibration/cuda/kernels block by block, one fiber per GPU thread, with the warp's
// tools as the PTX ISA defines them. It shows what a wrong index would spoil; it says nothing about speed,
// memory order or races. Include it before a kernel's header.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "calibration/measure/numbers.h"

#define EPSIM_DEVICE inline
#define EPSIM_UNROLL

namespace epsim::measure::kernel {

struct Index {
  int x = 0, y = 0, z = 0;
};
inline Index threadIdx, blockIdx, blockDim, gridDim;  // of the fiber that runs

// One fiber runs at a time, until it waits for others or ends.
struct Fiber {
  ucontext_t context{};
  std::unique_ptr<unsigned char[]> stack;
  bool ended = false;
};
inline ucontext_t scheduler;
inline Fiber* running = nullptr;
inline void let_others_run() { swapcontext(&running->context, &scheduler); }

class Meeting {
 public:
  explicit Meeting(int expected) : expected_(expected) {}
  void arrive_and_wait() {
    const int now = generation_;
    if (++arrived_ == expected_) {
      arrived_ = 0;
      ++generation_;
    }
    while (generation_ == now) {
      let_others_run();
    }
  }

 private:
  int expected_, arrived_ = 0, generation_ = 0;
};

// What 32 lanes hand to each other.
struct EmulatedWarp {
  Meeting meet{32};
  std::array<std::uint32_t, 32> words{};
};
inline EmulatedWarp* warp_of_thread = nullptr;
inline Meeting* block_barrier = nullptr;

inline int lane_of_thread() { return threadIdx.x % 32; }
inline void sync_block() { block_barrier->arrive_and_wait(); }

template <class T>
T shuffle_xor(T x, int mask) {
  static_assert(sizeof(T) == 4);
  EmulatedWarp& w = *warp_of_thread;
  const int lane = lane_of_thread();
  std::memcpy(&w.words[static_cast<std::size_t>(lane)], &x, 4);
  w.meet.arrive_and_wait();
  T out;
  std::memcpy(&out, &w.words[static_cast<std::size_t>(lane ^ mask)], 4);
  w.meet.arrive_and_wait();
  return out;
}
inline float exp_fast(float x) { return std::exp(x); }
inline float root_inverse(float x) { return 1.0f / std::sqrt(x); }
inline float fmaxf(float a, float b) { return std::max(a, b); }

inline std::function<void()> fiber_body;  // what every fiber of a block does
inline void fiber_main() {
  fiber_body();
  running->ended = true;
  let_others_run();
}

inline constexpr std::size_t kStackBytes = 64 * 1024;

inline void run_block(int threads, std::vector<Fiber>& fibers) {
  std::vector<EmulatedWarp> warps(static_cast<std::size_t>(threads / 32));
  Meeting block(threads);
  block_barrier = &block;
  for (Fiber& fiber : fibers) {
    fiber.ended = false;
    if (!fiber.stack) {  // kept from block to block, and not filled: touching it is what takes time
      fiber.stack = std::make_unique_for_overwrite<unsigned char[]>(kStackBytes);
    }
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.context, fiber_main, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (int number = 0; number < threads; ++number) {
      Fiber& fiber = fibers[static_cast<std::size_t>(number)];
      if (!fiber.ended) {
        any = true;
        running = &fiber;
        threadIdx = {number, 0, 0};
        warp_of_thread = &warps[static_cast<std::size_t>(number / 32)];
        swapcontext(&scheduler, &fiber.context);
      }
    }
  }
}

// Runs `body(shared)` as every thread of every block of `grid`; `shared` is the block's memory, filled with what no
// result is. `threads` is a multiple of 32.
template <class Body>
void run_grid(Index grid, int threads, std::size_t shared_bytes, Body body) {
  std::vector<std::uint64_t> shared(shared_bytes / 8 + 2);
  const bool odd = reinterpret_cast<std::uintptr_t>(shared.data()) % 16 != 0;
  auto* memory = reinterpret_cast<std::uint16_t*>(shared.data() + (odd ? 1 : 0));
  std::vector<Fiber> fibers(static_cast<std::size_t>(threads));
  blockDim = {threads, 1, 1};
  gridDim = grid;
  fiber_body = [&] { body(memory); };
  for (int b = 0; b < grid.x * grid.y * grid.z; ++b) {
    blockIdx = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    std::fill(shared.begin(), shared.end(), ~std::uint64_t{0});
    run_block(threads, fibers);
  }
}

}  // namespace epsim::measure::kernel
