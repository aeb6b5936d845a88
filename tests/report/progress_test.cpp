#include "sim/report/progress.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace epsim {
namespace {

// A wall clock that the test turns.
struct Clock {
  Seconds time{100.0};
  ProgressOptions options(bool terminal) {
    ProgressOptions out;
    out.terminal = terminal;
    out.now = [this] { return time; };
    return out;
  }
};

Ticks sim_s(std::int64_t s) { return Ticks{s * 1'000'000'000'000}; }

}  // namespace

TEST_CASE("plain lines: at the quarters, however fast the run") {
  Clock clock;
  std::ostringstream out;
  ProgressBoard board(out, clock.options(false));
  ProgressLine& line = board.add("base", 200);
  for (std::int64_t done = 0; done <= 200; ++done) {
    clock.time = Seconds(100.0 + static_cast<double>(done) / 256);  // 200 requests in 0.78 s: no heartbeat is due
    line.update(done, sim_s(done));
  }
  line.finish();
  // 50 requests in 50 / 256 s is 256 requests/s; the other 150 need 150 / 256 = 0.59 s.
  CHECK(out.str() ==
        "epsim: base 0 % (0 of 200 requests)\n"
        "epsim: base 25 % (50 of 200 requests, simulated 50.0 s, 256.0 requests/s, about 0.6 s left)\n"
        "epsim: base 50 % (100 of 200 requests, simulated 100.0 s, 256.0 requests/s, about 0.4 s left)\n"
        "epsim: base 75 % (150 of 200 requests, simulated 150.0 s, 256.0 requests/s, about 0.2 s left)\n"
        "epsim: base 100 % (200 of 200 requests), done after 0.8 s\n");
}

TEST_CASE("plain lines: other things than requests, which have no simulated clock") {
  Clock clock;
  std::ostringstream out;
  ProgressOptions options = clock.options(false);
  options.unit = "points";
  options.simulated = false;
  ProgressBoard board(out, options);
  ProgressLine& line = board.add("sweep", 4);
  clock.time = Seconds(108.0);
  line.update(1, Ticks{});
  line.finish();
  CHECK(out.str() ==
        "epsim: sweep 0 % (0 of 4 points)\n"
        "epsim: sweep 25 % (1 of 4 points, 0.1250 points/s, about 24 s left)\n"  // 3 points x 8 s
        "epsim: sweep 100 % (4 of 4 points), done after 8.0 s\n");
}

TEST_CASE("plain lines: a slow run has a heartbeat every 2 s") {
  Clock clock;
  std::ostringstream out;
  ProgressBoard board(out, clock.options(false));
  ProgressLine& line = board.add("base", 1000);
  for (int i = 1; i <= 50; ++i) {  // one request each 0.125 s
    clock.time = Seconds(100.0 + i * 0.125);
    line.update(i, sim_s(i));
  }
  // 50 x 0.125 = 6.25 s: heartbeats at 2, 4 and 6 s, with 16, 32 and 48 requests; 8 a second, so 984 / 8 = 123 s left.
  CHECK(out.str() ==
        "epsim: base 0 % (0 of 1000 requests)\n"
        "epsim: base 1 % (16 of 1000 requests, simulated 16.0 s, 8.000 requests/s, about 2 min 3 s left)\n"
        "epsim: base 3 % (32 of 1000 requests, simulated 32.0 s, 8.000 requests/s, about 2 min 1 s left)\n"
        "epsim: base 4 % (48 of 1000 requests, simulated 48.0 s, 8.000 requests/s, about 1 min 59 s left)\n");
}

TEST_CASE("a run that waited for its thread counts from its own start") {
  Clock clock;
  std::ostringstream out;
  ProgressBoard board(out, clock.options(false));
  ProgressLine& line = board.add("base", 4);
  clock.time = Seconds(160.0);  // a minute of other runs
  line.start();
  clock.time = Seconds(161.0);
  line.update(2, sim_s(1));  // 2 requests in 1 s
  line.finish();
  CHECK(out.str() ==
        "epsim: base 0 % (0 of 4 requests)\n"
        "epsim: base 50 % (2 of 4 requests, simulated 1.0 s, 2.000 requests/s, about 1.0 s left)\n"
        "epsim: base 100 % (4 of 4 requests), done after 1.0 s\n");
}

TEST_CASE("plain lines: what is under way, and a pace that does not fall between units") {
  Clock clock;
  std::ostringstream out;
  ProgressOptions options = clock.options(false);
  options.unit = "points";
  options.simulated = false;
  ProgressBoard board(out, options);
  ProgressLine& line = board.add("sweep", 5);
  clock.time = Seconds(103.0);
  line.note("eplb\n at 4/s");
  line.update(0, Ticks{});
  clock.time = Seconds(110.0);
  line.note("eplb at 5/s");
  line.update(1, Ticks{});
  clock.time = Seconds(115.0);
  line.update(1, Ticks{});  // 1 in 10 s still: the second one is under way
  line.finish();
  CHECK(out.str() ==
        "epsim: sweep 0 % (0 of 5 points)\n"
        "epsim: sweep 0 % (0 of 5 points); eplb? at 4/s\n"
        "epsim: sweep 20 % (1 of 5 points, 0.1000 points/s, about 40 s left); eplb at 5/s\n"
        "epsim: sweep 20 % (1 of 5 points, 0.1000 points/s, about 40 s left); eplb at 5/s\n"
        "epsim: sweep 100 % (5 of 5 points), done after 15 s\n");
}

TEST_CASE("a silence is too long after its time, until it is broken") {
  Clock clock;
  Silence silence(Seconds(10), [&clock] { return clock.time; });
  CHECK_FALSE(silence.too_long());
  clock.time += Seconds(10);
  CHECK(silence.too_long());
  silence.broken();
  CHECK_FALSE(silence.too_long());
}

TEST_CASE("a jump over several quarters is one line") {
  Clock clock;
  std::ostringstream out;
  ProgressBoard board(out, clock.options(false));
  board.add("base", 100).update(80, sim_s(1));
  const std::string text = out.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(text.find("80 %") != std::string::npos);
}

TEST_CASE("an interrupted run ends with what it had done, shown or not") {
  Clock clock;
  std::ostringstream out;
  ProgressBoard board(out, clock.options(false));
  ProgressLine& line = board.add("base", 100);
  line.update(7, sim_s(1));  // too soon for a line
  clock.time += Seconds(1.5);
  line.finish(true);
  CHECK(out.str() ==
        "epsim: base 0 % (0 of 100 requests)\nepsim: base 7 % (7 of 100 requests), interrupted after 1.5 s\n");
}

TEST_CASE("a run without requests is done when it ends") {
  Clock clock;
  std::ostringstream out;
  ProgressBoard board(out, clock.options(false));
  board.add("base", 0).finish();
  CHECK(out.str() == "epsim: base 0 % (0 of 0 requests)\nepsim: base 100 % (0 of 0 requests), done after 0.0 s\n");
}

TEST_CASE("on a terminal one line redraws itself, ten times a second at most") {
  Clock clock;
  std::ostringstream out;
  {
    ProgressBoard board(out, clock.options(true));
    ProgressLine& line = board.add("base", 100);
    clock.time += Seconds(0.05);
    line.update(1, sim_s(1));  // too soon
    clock.time += Seconds(0.95);
    line.update(50, sim_s(20));
    line.finish();
  }
  const std::string start = "\r\033[K";
  // 50 requests in 1 s, so the other 50 take 1 s.
  CHECK(out.str() ==
        start + "[                    ]  base 0 %  0/100 requests" + start +
            "[==========          ]  1.0 s left  base 50 %  50/100 requests  50.00/s  simulated 20.0 s" + start +
            "[====================]  0.0 s left  base 100 %  100/100 requests  100.0/s  simulated 20.0 s\n");
}

TEST_CASE("several runs share the line, which is cut at the terminal's width") {
  Clock clock;
  std::ostringstream out;
  ProgressOptions options = clock.options(true);
  options.columns = 60;
  ProgressBoard board(out, options);
  ProgressLine& base = board.add("base", 100);
  clock.time += Seconds(1.0);
  ProgressLine& eplb = board.add("eplb", 100);
  clock.time += Seconds(1.0);
  base.update(60, sim_s(3));
  clock.time += Seconds(1.0);
  eplb.update(20, sim_s(1));
  const std::string text = out.str();
  const std::string last = text.substr(text.rfind('\r') + 4);                    // after "\r\033[K"
  CHECK(last == "[========            ]  4.5 s left  base 60 %  eplb 20 %  ~");  // 59 columns
}

TEST_CASE("control characters in a label do not reach the terminal") {
  Clock clock;
  std::ostringstream out;
  ProgressBoard board(out, clock.options(false));
  board.add("a\033b\n", 1);
  CHECK(out.str() == "epsim: a?b? 0 % (0 of 1 requests)\n");
}

TEST_CASE("runs may report from their own threads") {
  std::ostringstream out;
  ProgressBoard board(out, {});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&board, t] {
      ProgressLine& line = board.add("run" + std::to_string(t), 1000);
      for (std::int64_t done = 0; done <= 1000; ++done) {
        line.update(done, sim_s(done));
      }
      line.finish();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  // Whole lines only, and each run has its five (more only if the machine stalled for 2 s).
  std::istringstream in(out.str());
  int count = 0;
  for (std::string text; std::getline(in, text); ++count) {
    CHECK(text.rfind("epsim: run", 0) == 0);
  }
  CHECK(count >= 20);
}

}  // namespace epsim
