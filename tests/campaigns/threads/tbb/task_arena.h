#pragma once

namespace tbb::this_task_arena {

template <class Body>
auto isolate(const Body& body) {
  return body();
}

}  // namespace tbb::this_task_arena
