// How far runs have come, on stderr: one line that redraws itself on a terminal, plain lines otherwise. Several runs
// may report at once from their own threads. Never part of the results: it reads the wall clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

struct ProgressOptions {
  bool quiet = false;                 // nothing is shown
  bool terminal = false;              // the stream is a terminal
  int columns = 100;                  // of the terminal; the line is cut there
  Seconds redraw{0.1};                // a terminal's line is redrawn at most this often
  Seconds heartbeat{2.0};             // between plain lines, but for those at 0, 25, 50, 75 and 100 %
  std::function<Seconds()> now = {};  // wall clock; the steady clock when empty
  std::string unit = "requests";      // what is counted
  bool simulated = true;              // show the simulated clock
};

class ProgressBoard;

// One run. Its own thread calls update(), as often as it likes: between redraws a call only reads the clock.
class ProgressLine {
 public:
  // The run had to wait for its thread: its pace counts from here, not from ProgressBoard::add.
  void start();
  // What the unit under way does; shown after the count, from the next update() on. Called as update() is.
  void note(const std::string& text);
  // `done` requests of the run's total are finished; the simulated clock stands at `simulated`.
  void update(std::int64_t done, Ticks simulated);
  // The run ended: completely, or cut short.
  void finish(bool interrupted = false);

 private:
  friend class ProgressBoard;
  ProgressLine(ProgressBoard& board, const std::string& label, std::int64_t total, Seconds started);
  double share() const;

  ProgressBoard& board_;
  std::string label_;
  std::int64_t total_;
  Seconds started_;
  // Touched by the run's thread alone; `next_mark_` is the number of requests at which the next quarter line is due.
  Seconds last_shown_;
  std::int64_t next_mark_ = 0, latest_done_ = 0;
  Ticks latest_simulated_{};
  Seconds latest_advance_{};
  std::string latest_note_;
  // Guarded by the board's mutex: what was last shown.
  std::int64_t done_ = 0;
  Ticks simulated_{};
  Seconds advanced_{};  // when more was done than before
  std::string note_;
  bool ended_ = false, interrupted_ = false;
};

class ProgressBoard {
 public:
  ProgressBoard(std::ostream& out, ProgressOptions options);
  ~ProgressBoard();  // leaves the cursor on a fresh line
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  // A run of `total` requests starts now, or at its start(). The line lives as long as the board.
  ProgressLine& add(const std::string& label, std::int64_t total);

 private:
  friend class ProgressLine;
  Seconds now() const { return options_.now(); }
  void show(const ProgressLine& line);
  void redraw();
  std::string bar_line() const;

  std::ostream& out_;
  ProgressOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ProgressLine>> lines_;
  Seconds last_redraw_{-1e9};
  bool drawn_ = false;
};

// How long nothing has been said, for who prints lines as things end and one of what is under way in between. Its calls
// are made one at a time.
class Silence {
 public:
  explicit Silence(Seconds most, std::function<Seconds()> now = {});
  void broken();  // something was said
  bool too_long() const { return now_() - since_ >= most_; }

 private:
  Seconds most_;
  std::function<Seconds()> now_;
  Seconds since_;
};

}  // namespace epsim
