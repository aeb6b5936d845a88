// A timeline as JSON in the Trace Event Format.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <tuple>

#include "sim/report/perfetto.h"

namespace epsim {
namespace {

// Process 0 belongs to the system in viewers, so ours begin at 1.
constexpr int kStepsProcess = 1, kFirstRankProcess = 2;
constexpr int kLanes = static_cast<int>(kStepLaneNames.size());
constexpr int kMostRows = 4096;  // pieces beside each other in one lane of one GPU

// The format counts microseconds; a picosecond is their sixth decimal.
std::string microseconds(Ticks time) {
  return fmt::format("{}.{:06}", time.count() / 1'000'000, time.count() % 1'000'000);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Events of one instant keep this order: counters, slices from the outside in, then the flows that hang on them.
enum class Kind : std::uint8_t { kCounter, kStep, kSlice, kFlow };

struct Event {
  Ticks at{};
  Kind kind{};
  std::string json;
};

class Trace {
 public:
  explicit Trace(const TimelineRecorder& recorder) : recorder_(recorder) {
    for (const TimelineStep& step : recorder.steps()) {
      gpus_ = std::max(gpus_, step.gpus);
    }
    const std::size_t ranks = recorder.steps().empty() ? 1 : std::max<std::size_t>(1, recorder.steps()[0].ranks.size());
    gpus_per_rank_ = std::max(1, gpus_ / static_cast<int>(ranks));
    add_steps();
    add_slices();
    add_flows();
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return std::tie(a.at, a.kind) < std::tie(b.at, b.kind); });
  }

  void write(std::ostream& out, const std::string& label) const {
    out << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"run\":" << quoted(label)
        << ",\"instance\":" << (recorder_.steps().empty() ? 0 : recorder_.steps()[0].instance)
        << ",\"cut_short\":" << (recorder_.cut_short() ? "true" : "false") << "},\"traceEvents\":[\n";
    const char* separator = "";
    for (const std::string& line : metadata()) {
      out << separator << line;
      separator = ",\n";
    }
    for (const Event& event : events_) {
      out << separator << event.json;
      separator = ",\n";
    }
    out << "\n]}\n";
  }

 private:
  using Track = std::tuple<int, int, int>;                // GPU, lane, row
  using Piece = std::tuple<std::int64_t, int, int, int>;  // step, layer, micro-batch, GPU

  int process(int gpu) const { return kFirstRankProcess + gpu / gpus_per_rank_; }
  static int thread(const Track& track) {
    return (std::get<0>(track) * kLanes + std::get<1>(track)) * kMostRows + std::get<2>(track) + 1;
  }

  void add(Ticks at, Kind kind, std::string json) { events_.push_back({at, kind, std::move(json)}); }

  void add_steps() {
    for (const TimelineStep& s : recorder_.steps()) {
      std::int64_t prefill = 0, decode = 0;
      add_pauses(s);
      for (std::size_t r = 0; r < s.ranks.size(); ++r) {
        const RankBatch& batch = s.ranks[r];
        prefill += batch.prefill_tokens;
        decode += batch.decode_tokens;
        counter(s.start, static_cast<int>(r), "batch [tokens]",
                fmt::format("\"prefill\":{},\"decode\":{}", batch.prefill_tokens, batch.decode_tokens));
        if (r < s.kv_blocks.size()) {
          counter(s.start, static_cast<int>(r), "KV reserved [blocks]", fmt::format("\"reserved\":{}", s.kv_blocks[r]));
        }
      }
      add(s.start, Kind::kStep,
          fmt::format("{{\"ph\":\"X\",\"pid\":{},\"tid\":1,\"ts\":{},\"dur\":{},\"name\":\"step {}\",\"cat\":\"step\","
                      "\"args\":{{\"prefill_tokens\":{},\"decode_tokens\":{}}}}}",
                      kStepsProcess, microseconds(s.start), microseconds(s.length), s.step, prefill, decode));
    }
  }

  // What the step waited for, one after another in the order of the parts: planning comes before the weights that it moves.
  void add_pauses(const TimelineStep& s) {
    Ticks at = s.waited_since;
    for (int p = 0; p < kLayerParts; ++p) {
      const Ticks length = std::min(to_ticks(s.waited.by_part[static_cast<std::size_t>(p)]), s.start - at);
      if (length > Ticks{}) {
        const std::string_view part = kLayerPartNames[static_cast<std::size_t>(p)];
        add(at, Kind::kStep,
            fmt::format("{{\"ph\":\"X\",\"pid\":{},\"tid\":1,\"ts\":{},\"dur\":{},\"name\":\"{}\",\"cat\":\"{}\","
                        "\"args\":{{\"before_step\":{}}}}}",
                        kStepsProcess, microseconds(at), microseconds(length), part, part, s.step));
        at += length;
      }
    }
  }

  void counter(Ticks at, int rank, const char* name, const std::string& values) {
    add(at, Kind::kCounter,
        fmt::format("{{\"ph\":\"C\",\"pid\":{},\"ts\":{},\"name\":\"{}\",\"args\":{{{}}}}}", kFirstRankProcess + rank,
                    microseconds(at), name, values));
  }

  // Slices by time, each in the first row of its lane that is free by then.
  void add_slices() {
    const std::vector<TimelineSlice>& slices = recorder_.slices();
    order_.resize(slices.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      order_[i] = i;
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return slices[a].start < slices[b].start; });
    threads_.resize(slices.size());
    std::map<Track, Ticks> busy_until;
    for (const std::size_t i : order_) {
      const TimelineSlice& s = slices[i];
      Track track{s.gpu, static_cast<int>(s.lane), 0};
      while (std::get<2>(track) + 1 < kMostRows && busy_until.contains(track) && busy_until[track] > s.start) {
        ++std::get<2>(track);
      }
      busy_until[track] = std::max(busy_until[track], s.start + s.duration);
      tracks_.emplace(track, thread(track));
      threads_[i] = thread(track);
      add(s.start, Kind::kSlice, slice_json(s, threads_[i]));
    }
  }

  std::string slice_json(const TimelineSlice& s, int tid) const {
    std::string args = fmt::format("\"step\":{},\"layer\":{},\"micro_batch\":{}", s.step, s.layer, s.micro_batch);
    if (s.sent_bytes >= 0) {
      args += fmt::format(",\"layer_sent_MB\":{},\"layer_received_MB\":{}", s.sent_bytes / 1e6, s.received_bytes / 1e6);
    }
    const std::string_view part = kLayerPartNames[static_cast<std::size_t>(s.part)];
    return fmt::format(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"{}\",\"cat\":\"{}\","
        "\"args\":{{{}}}}}",
        process(s.gpu), tid, microseconds(s.start), microseconds(s.duration),
        s.layer < 0 ? std::string(part) : fmt::format("{} {}", part, s.layer), part, args);
  }

  // For every dispatch: what the GPU computed last before it, the dispatch's pieces, the first expert work after it.
  void add_flows() {
    const std::vector<TimelineSlice>& slices = recorder_.slices();
    std::map<Piece, std::vector<std::size_t>> chains;
    std::map<Piece, std::size_t> before;  // the latest computation so far
    std::map<Piece, bool> ended;
    for (const std::size_t i : order_) {
      const TimelineSlice& s = slices[i];
      const Piece piece{s.step, s.layer, s.micro_batch, s.gpu};
      std::vector<std::size_t>& chain = chains[piece];
      if (s.part == LayerPart::kDispatch && s.lane == StepLane::kNetwork && !ended[piece]) {
        if (chain.empty() && before.contains(piece)) {
          chain.push_back(before[piece]);
        }
        chain.push_back(i);
      } else if (s.part == LayerPart::kExperts && !chain.empty() && !ended[piece]) {
        chain.push_back(i);
        ended[piece] = true;
      } else if (s.lane == StepLane::kCompute && chain.empty()) {
        before[piece] = i;
      }
    }
    std::int64_t id = 0;
    for (const auto& [piece, chain] : chains) {
      if (chain.size() > 1) {
        add_flow(++id, chain);
      }
    }
  }

  // A viewer finds the slice that an end belongs to by its track and time, so ends stand at their slice's start.
  void add_flow(std::int64_t id, const std::vector<std::size_t>& chain) {
    for (std::size_t n = 0; n < chain.size(); ++n) {
      const TimelineSlice& s = recorder_.slices()[chain[n]];
      const char* phase = n == 0 ? "s" : n + 1 == chain.size() ? "f" : "t";
      add(s.start, Kind::kFlow,
          fmt::format(
              "{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"id\":{},\"name\":\"dispatch\",\"cat\":\"flow\","
              "\"bp\":\"e\"}}",
              phase, process(s.gpu), threads_[chain[n]], microseconds(s.start), id));
    }
  }

  static std::string name_of(const char* what, int pid, int tid, const std::string& name) {
    return fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"name\":\"{}\"}}}}", pid, tid,
                       what, name);
  }

  std::vector<std::string> metadata() const {
    std::vector<std::string> out{name_of("process_name", kStepsProcess, 1, "steps"),
                                 name_of("thread_name", kStepsProcess, 1, "steps")};
    for (int gpu = 0; gpu < gpus_; gpu += gpus_per_rank_) {
      out.push_back(name_of("process_name", process(gpu), 0, fmt::format("DP rank {}", gpu / gpus_per_rank_)));
    }
    for (const auto& [track, tid] : tracks_) {
      const auto [gpu, lane, row] = track;
      std::string name = fmt::format("GPU {} {}", gpu, kStepLaneNames[static_cast<std::size_t>(lane)]);
      name += row > 0 ? fmt::format(" ({})", row + 1) : "";
      out.push_back(name_of("thread_name", process(gpu), tid, name));
      out.push_back(
          fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_sort_index\",\"args\":"
                      "{{\"sort_index\":{}}}}}",
                      process(gpu), tid, tid));
    }
    return out;
  }

  const TimelineRecorder& recorder_;
  int gpus_ = 1, gpus_per_rank_ = 1;
  std::vector<std::size_t> order_;  // of the slices, by start
  std::vector<int> threads_;        // of each slice
  std::map<Track, int> tracks_;
  std::vector<Event> events_;
};

}  // namespace

void write_timeline(std::ostream& out, const TimelineRecorder& recorder, const std::string& label) {
  Trace(recorder).write(out, label);
}

}  // namespace epsim
