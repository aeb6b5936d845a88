// All instances of a deployment in one event queue: requests arrive and are routed to an instance, instances step each
// at its own pace, and where prompts and decodes run on instances of their own, keys and values travel between them.
//
//   Prefill/decode: a request is routed to a prefill instance, which computes its prompt and holds the keys and values
//           until they have travelled, one prompt after another on the lane that the source rank leaves by. The decode
//           instance sets pages aside for them as soon as it can: where the engine asks for memory first, before the
//           prompt enters the prefill instance's queue, and then what has been computed of it travels chunk by chunk;
//           else when all of it has been computed. The decode instance hands out the first token: when the transfer has
//           ended, or, with an engine that samples it again, after its own step.
//           A transfer goes at the share of its rate that faults leave to the slower of its ends when it begins.
//   Losses: a DP rank that is lost takes its requests' keys and values with it; they start anew, as arrivals do, on a
//           rank that is left, and fail after `retry_limit` of that, or when nobody is left who could serve them. The
//           step under way when hardware goes ends as if nothing had happened; then its instance stands still for the loss's
//           recovery time. What a request had handed out is generated again: its answer and its latencies are those of
//           its last start, but for the gaps between tokens, which were real, and its arrival. A rank that comes back
//           is empty, takes new requests, and steps with its instance after the time that it takes to rejoin; a whole instance is
//           sent none before, unless there is no other.
//   Clients: in a closed loop, the next request of the trace arrives when one has ended or failed.
//   Source : SGLang v0.4.8 disaggregation/prefill.py (PrefillBootstrapQueue: requests "whose bootstrap (handshake and
//            preallocation) has not finished"; send_kv_chunk), decode.py (the decode server streams the answer). vLLM
//            v0.10 nixl_connector.py: the decode worker reads when the prompt has ended.
//   Ignores: handshake latency.
//   Differs: SGLang's prefill instance is chosen when pages have been set aside, there before; vLLM's decode server
//            chooses the time of its read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/cluster/events.h"
#include "sim/cluster/instance.h"
#include "sim/cluster/run_control.h"
#include "sim/cluster/run_counters.h"
#include "sim/cluster/run_result.h"
#include "sim/cluster/run_series.h"
#include "sim/core/fingerprint.h"
#include "sim/domain/request_trace.h"
#include "sim/engine/event_queue.h"

namespace epsim {

class Deployment {
 public:
  // `records` are those of the trace's requests, of whose rows nothing is read. What is passed by reference must outlive
  // the deployment; every request must fit a rank's KV pool of every instance. Instances of one role stand together,
  // those that decode for others last.
  Deployment(const RequestTrace& trace, RequestRecords records, std::span<const InstanceSpec> specs, Router router,
             const RunControl& control, int retry_limit = 0);
  Deployment(const Deployment&) = delete;
  Deployment& operator=(const Deployment&) = delete;

  // Runs to the end of the trace's last request, or until told to stop; the audited result. Once.
  RunResult run();

 private:
  // Where a request's keys and values come from and go to.
  struct Route {
    std::int32_t to_instance, to_rank;
    std::int32_t from_instance = -1, from_rank = -1;  // -1: no prefill instance has it yet
    std::int64_t computed = 0, sent = 0;              // tokens of the prompt; what has been computed may go
    bool admitted = false;                            // the decode rank has set memory aside
    bool ended = false;                               // all of it has been computed
    Ticks asked{};                                    // it waits for that memory since then
  };

  void handle(Ticks at, const ServingEvent& event);
  void on(const StepDone& event);
  void on(const RequestArrived& event);
  void on(const RequestReady& event);
  void on(const StepDue& event);
  void on(const KvTravels& event);
  void on(const KvArrived& event);
  void on(const HardwareChanged& event);
  void on(const WeightsArrived& event);

  void expect_arrival(std::size_t request);
  void start_clients();
  void send_next(std::int64_t requests);
  bool has_ended(std::int32_t request) const;
  void send_turns();
  Ticks earliest(std::int32_t turn) const;
  void expect_step(std::size_t instance);
  void expect_weights(std::size_t instance);
  void pass_without_step(std::size_t instance);
  void stop_loop(std::size_t instance);
  bool stop_wanted() const;
  std::size_t pick(std::span<const std::size_t> among, std::size_t& next, Router rule, std::int32_t request) const;
  std::size_t pick_alive(std::span<const std::size_t> among, std::size_t& next, std::int32_t request) const;
  bool any_alive(std::span<const std::size_t> among) const;
  bool can_serve() const { return any_alive(fronts_) && (decoders_.empty() || any_alive(decoders_)); }
  bool stranded(std::size_t instance) const;
  bool all_ended() const;
  struct Place {
    std::size_t instance, rank;
  };
  Place enter_front(std::int32_t request);
  void begin(std::int32_t request);
  void change_gpus(std::size_t instance, const HardwareChange& change);
  std::optional<Ticks> recovery_stall(std::size_t instance, const HardwareChange& change);
  void lose_ranks(std::size_t instance, std::span<const int> ranks);
  void revive(std::size_t instance);
  void lose_instance(std::size_t instance);
  bool cut_route(std::int32_t request, std::size_t lost_instance);
  void retry(std::int32_t request);
  void fail(std::int32_t request);
  void settle(std::size_t instance);
  void hand_over(std::size_t from);
  void start_transfers(std::size_t to);
  Route& route_to_decoder(std::int32_t request);
  void begin_remote(std::int32_t request, Route& route);
  void transfer(std::int32_t request, Route& route);
  void ended(std::int64_t requests);
  std::int64_t first_rank(std::size_t instance) const { return first_rank_[instance]; }
  void note_rank(std::int32_t request, std::int64_t rank) {
    RequestRecord& r = result_.requests[static_cast<std::size_t>(request)];
    r.rank = static_cast<std::uint16_t>(rank);
    r.place = RequestPlace::kRank;
  }
  std::int32_t attempt_of(std::int32_t request) const {
    return result_.requests.extras(static_cast<std::size_t>(request)).retries;
  }
  void report_progress() const;
  void observe(std::size_t instance);
  bool in_last_pool(std::size_t i) const { return specs_[i].options.role == specs_.back().options.role; }
  std::int64_t blocks_of_last_pool() const;
  KvStats kv_stats() const;
  void add_totals();
  void leave_out_warmup();
  RunResult take_result();

  ClosedLoop loop_;
  std::span<const std::int32_t> turn_before_;  // RequestTrace's
  std::span<const InstanceSpec> specs_;
  Router rule_;
  const RunControl& control_;
  int retry_limit_;

  EventQueue<ServingEvent> queue_;
  Ticks now_{};
  RunResult result_;  // its records are the ranks' table: never resized
  std::vector<std::unique_ptr<Scheduler>> ranks_;
  std::vector<Instance> instances_;
  std::vector<std::int64_t> first_rank_;        // [instance] the number of its first rank among all
  std::vector<std::size_t> fronts_, decoders_;  // instances that take arrivals; those that decode for others
  std::vector<std::vector<Ticks>> lane_free_;   // [instance][lane] that prompts leave by
  // What a lane that prompts reach has to take: those that travel, and the queue before it.
  struct Inbound {
    int prompts = 0;
    double inflow = 0;     // of those that travel, together
    double backlog_s = 0;  // of the lane's time, at `since`
    Ticks since{0};
  };
  std::vector<std::vector<Inbound>> inbound_;                // [instance][lane]
  std::multimap<std::int32_t, std::int32_t> waiting_turns_;  // that are due, by the request whose end they wait for
  std::vector<std::int32_t> ended_;                  // since the last send_turns(); filled only where turns wait
  std::unordered_map<std::int32_t, Route> routes_;   // of requests between prefill and decode
  std::vector<std::vector<std::size_t>> unnoticed_;  // [instance] changes of GPUs that wait for the end of its step
  struct Standing {
    std::vector<bool> broken;  // [DP rank] it has lost a GPU
    bool down = false;         // the instance cannot serve, whatever ranks are whole
    Ticks ready{};             // back as a whole, it steps from then on
  };
  std::vector<Standing> standing_;  // [instance]
  bool may_lose_ = false;
  bool memory_first_ = false;  // ServingOptions, of prefill instances
  std::size_t next_front_ = 0, next_decoder_ = 0;
  RunCounters counters_;
  SeriesRecorder series_;
  std::vector<SeriesRecorder::Levels> levels_;  // [instance]
  SeriesRecorder::Levels level_;                // their sum
  Fingerprint fingerprint_;
  std::int64_t arrived_ = 0, in_flight_ = 0;  // steps
  bool warming_up_ = false;                   // of a closed loop
  std::int64_t sent_ = 0;                     // of its requests
};

}  // namespace epsim
