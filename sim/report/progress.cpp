#include "sim/report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/report/format.h"

namespace epsim {
namespace {

Seconds steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// 42 is "42 s", 192 is "3 min 12 s".
std::string duration_text(Seconds time) {
  const double seconds = std::max(0.0, time.count());
  if (seconds < 60) {
    return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
  }
  const auto whole = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9)));
  return whole < 3600 ? fmt::format("{} min {} s", whole / 60, whole % 60)
                      : fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

struct Pace {
  std::int64_t done = 0, total = 0;
  Seconds wall{};  // spent so far
  double rate() const { return ratio(static_cast<double>(done), wall.count()); }
  std::string remaining() const {
    const double r = rate();
    return r > 0 ? duration_text(Seconds(static_cast<double>(total - done) / r)) : "unknown";
  }
};

std::string bar(double share) {
  constexpr int kCells = 20;
  return fmt::format("[{:<{}}]", std::string(static_cast<std::size_t>(share * kCells), '='), kCells);
}

// The smallest number of done requests that is past the quarter which `done` is in; beyond `total` after the last.
std::int64_t next_quarter(std::int64_t done, std::int64_t total) {
  for (std::int64_t quarter = 1; quarter <= 4; ++quarter) {
    const std::int64_t mark = (quarter * total + 3) / 4;
    if (mark > done) {
      return mark;
    }
  }
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace

ProgressLine::ProgressLine(ProgressBoard& board, const std::string& label, std::int64_t total, Seconds started)
    : board_(board), label_(printable(label)), total_(total), started_(started), last_shown_(started) {
  next_mark_ = next_quarter(0, total);
  advanced_ = latest_advance_ = started;
}

double ProgressLine::share() const {
  return total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0)
                    : (ended_ ? 1.0 : 0.0);
}

void ProgressLine::start() {
  const Seconds now = board_.now();
  const std::lock_guard lock(board_.mutex_);
  started_ = last_shown_ = advanced_ = latest_advance_ = now;
}

void ProgressLine::note(const std::string& text) { latest_note_ = printable(text); }

void ProgressLine::update(std::int64_t done, Ticks simulated) {
  const Seconds now = board_.now();
  latest_advance_ = done > latest_done_ ? now : latest_advance_;
  latest_done_ = done;
  latest_simulated_ = simulated;
  const bool terminal = board_.options_.terminal;
  const bool due = now - last_shown_ >= (terminal ? board_.options_.redraw : board_.options_.heartbeat);
  // The line at 100 % belongs to finish().
  const bool marked = !terminal && done >= next_mark_ && done < total_;
  if (!due && !marked) {
    return;
  }
  last_shown_ = now;
  next_mark_ = next_quarter(done, total_);
  const std::lock_guard lock(board_.mutex_);
  advanced_ = latest_advance_;
  done_ = done;
  simulated_ = simulated;
  note_ = latest_note_;
  board_.show(*this);
}

void ProgressLine::finish(bool interrupted) {
  const Seconds now = board_.now();
  const std::lock_guard lock(board_.mutex_);
  ended_ = true;
  interrupted_ = interrupted;
  done_ = interrupted ? latest_done_ : total_;
  simulated_ = latest_simulated_;
  advanced_ = now;
  board_.last_redraw_ = Seconds(-1e9);  // an end is always shown
  board_.show(*this);
}

ProgressBoard::ProgressBoard(std::ostream& out, ProgressOptions options) : out_(out), options_(std::move(options)) {
  if (!options_.now) {
    options_.now = steady_now;
  }
}

ProgressBoard::~ProgressBoard() {
  if (drawn_) {
    out_ << "\n" << std::flush;
  }
}

ProgressLine& ProgressBoard::add(const std::string& label, std::int64_t total) {
  const Seconds started = now();
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::unique_ptr<ProgressLine>(new ProgressLine(*this, label, total, started)));
  show(*lines_.back());
  return *lines_.back();
}

// Called with the mutex held.
void ProgressBoard::show(const ProgressLine& line) {
  if (options_.quiet) {
    return;
  }
  if (options_.terminal) {
    redraw();
    return;
  }
  // Where few units are counted, the time since the last one says nothing of the pace.
  const Pace pace{line.done_, line.total_, line.advanced_ - line.started_};
  std::string text = fmt::format("epsim: {} {:.0f} % ({} of {} {}", line.label_, std::floor(line.share() * 100),
                                 line.done_, line.total_, options_.unit);
  if (line.ended_) {
    text += fmt::format("), {} after {}", line.interrupted_ ? "interrupted" : "done", duration_text(pace.wall));
  } else if (line.done_ > 0) {
    if (options_.simulated) {
      text += fmt::format(", simulated {} s", fixed(to_seconds(line.simulated_).count(), 1));
    }
    text += fmt::format(", {} {}/s, about {} left)", rounded(pace.rate()), options_.unit, pace.remaining());
  } else {
    text += ")";
  }
  if (!line.ended_ && !line.note_.empty()) {
    text += "; " + line.note_;
  }
  out_ << text + "\n" << std::flush;
}

void ProgressBoard::redraw() {
  const Seconds time = now();
  if (time - last_redraw_ < options_.redraw) {
    return;
  }
  last_redraw_ = time;
  drawn_ = true;
  out_ << "\r\033[K" + shortened(bar_line(), static_cast<std::size_t>(std::max(options_.columns, 20)) - 1)
       << std::flush;
}

// All runs on one line: the overall bar, each run's share, and the pace of all together.
std::string ProgressBoard::bar_line() const {
  Pace pace;
  Seconds started = lines_.front()->started_, updated = started;
  Ticks simulated{};
  std::string each;
  for (const auto& line : lines_) {
    pace.done += line->done_;
    pace.total += line->total_;
    started = std::min(started, line->started_);
    updated = std::max(updated, line->advanced_);
    simulated = std::max(simulated, line->simulated_);
    each += fmt::format("  {} {:.0f} %{}", line->label_, std::floor(line->share() * 100),
                        line->interrupted_ ? " interrupted" : "");
  }
  pace.wall = updated - started;
  const double share = std::clamp(ratio(static_cast<double>(pace.done), static_cast<double>(pace.total)), 0.0, 1.0);
  // What a narrow terminal cuts off comes last.
  std::string text = bar(std::isnan(share) ? 0 : share);
  if (pace.done > 0) {
    text += fmt::format("  {} left", pace.remaining());
  }
  text += fmt::format("{}  {}/{} {}", each, pace.done, pace.total, options_.unit);
  if (pace.done > 0) {
    text += fmt::format("  {}/s", rounded(pace.rate()));
  }
  if (pace.done > 0 && options_.simulated) {
    text += fmt::format("  simulated {} s", fixed(to_seconds(simulated).count(), 1));
  }
  for (const auto& line : lines_) {
    text += line->ended_ || line->note_.empty() ? "" : "  " + line->note_;
  }
  return text;
}

Silence::Silence(Seconds most, std::function<Seconds()> now)
    : most_(most), now_(now ? std::move(now) : steady_now), since_(now_()) {}

void Silence::broken() { since_ = now_(); }

}  // namespace epsim
