// A run small enough that every figure of its report is worked out by hand. Times in the comments count from its start.
#pragma once

#include <string>

#include "sim/cluster/run_result.h"

namespace epsim::test {

inline Ticks at_ms(std::int64_t ms) { return Ticks{ms * 1'000'000'000}; }

inline RequestRecord request(RequestState state, Ticks arrival, Ticks admitted, Ticks first, Ticks finished,
                             std::int32_t output_tokens) {
  RequestRecord r;
  r.place = state == RequestState::kWaiting ? RequestPlace::kAway : RequestPlace::kRank;
  r.state = state;
  r.input_tokens = 100;
  r.output_tokens = output_tokens;
  r.arrival = arrival;
  r.admitted = admitted;
  r.first_token = first;
  r.finished = finished;
  return r;
}

// Two requests, both completed: A arrives at 1 s, is admitted at 1.2 s, has its first of 5 tokens at 1.5 s and its last
// at 2.5 s; B arrives at 2 s, is admitted at once, and has its single token at 2.25 s. The run ends at 5 s: 4 s after
// the first arrival.
inline void add_requests(RunResult& run) {
  run.requests = {request(RequestState::kCompleted, at_ms(1000), at_ms(1200), at_ms(1500), at_ms(2500), 5),
                  request(RequestState::kCompleted, at_ms(2000), at_ms(2000), at_ms(2250), at_ms(2250), 1)};
  run.completed = 2;
  run.input_tokens = 200;
  run.output_tokens = 6;
  run.end = at_ms(5000);
  run.latency.ttft_s = summarize(std::vector<double>{0.5, 0.25});
  run.latency.itl_s = summarize(std::vector<double>{0.25, 0.25, 0.25, 0.25});
  run.latency.tpot_s = summarize(std::vector<double>{0.25});
  run.latency.e2e_s = summarize(std::vector<double>{1.5, 0.25});
  run.latency.queue_s = summarize(std::vector<double>{0.2, 0.0});
}

// Two MoE layers (3 and 4 of the model) on two GPUs, 4 steps that take 2 s in all.
inline void add_steps(RunResult& run) {
  run.gpus = 2;
  run.steps = 4;
  run.replayed_steps = 1;
  run.transfers = {2, 200, Seconds(0.008), Seconds(0.002)};
  run.time.total = Seconds(2.0);
  run.time.by_part = {Seconds(0.5), Seconds(0), Seconds(0.25), Seconds(0.75), Seconds(0.25), Seconds(0), Seconds(0.25)};
  run.time.by_origin = {Seconds(1.0), Seconds(0.5), Seconds(0.25), Seconds(0.25), Seconds(0)};
  run.time.straggler = Seconds(0.5);
  // A prompt of 1 s, two decodes of 0.5 s together, a mixed step of 0.5 s. Powers of two: their sums are exact.
  StepCost quarter;
  quarter.total = Seconds(0.5);
  for (std::size_t p = 0; p < run.time.by_part.size(); ++p) {
    quarter.by_part[p] = run.time.by_part[p] / 4;
  }
  quarter.straggler = run.time.straggler / 4;
  StepCost half = quarter;
  half.total = quarter.total * 2;
  for (Seconds& part : half.by_part) {
    part *= 2;
  }
  half.straggler = quarter.straggler * 2;
  run.by_kind = {{{1, half}, {2, quarter}, {1, quarter}}};
  run.instances = {{InstanceRole::kWhole, 4, 1, run.time, run.by_kind, 2}};
  run.detail.steps = 4;
  run.detail.gpus = 2;
  LayerTotals busy{3, {}, Seconds(0.0008), 2.0, 0.25};  // balancedness 2.0 / 4 = 0.5 on average
  busy.by_part = {Seconds(0.004), Seconds(0), Seconds(0.001), Seconds(0.002), Seconds(0.001), Seconds(0), Seconds(0)};
  LayerTotals idle{4, {}, Seconds(0), 4.0, 1.0};  // no load: balanced in every step
  run.detail.layers = {busy, idle};
  run.detail.balancedness = LayerSeries(2);
  for (const double balancedness : {0.25, 0.75, 0.5, 0.5}) {
    run.detail.balancedness.add(0, balancedness);
    run.detail.balancedness.add(1, 1.0);
    run.detail.balancedness.end_step();
  }
  run.detail.gpu_load = {300, 100, 0, 0};
  run.detail.gpu_busy_s = {0.5, 0.25, 0, 0};
  run.detail.links = {{"node0.nic.out", BytesPerSecond(50e9), Bytes(20e9)},
                      {"node0.nic.in", BytesPerSecond(50e9), Bytes(10e9)}};
  // In layer 3 dispatch waits 3 ms for the way out and 1 ms for the way in, combine 1 ms for the way in.
  run.detail.bottleneck_s = {0.003, 0.001, 0, 0.001, 0, 0, 0, 0};
  run.planned_balancedness = {0.9, 1.0};
  run.extra_copies = {3, 0};
}

inline void add_memory(RunResult& run) {
  run.kv.blocks_per_rank = 100;
  run.kv.block_tokens = 16;
  run.kv.peak_blocks = 25;
  run.kv.mean_use = 0.125;
  run.kv.time_full_share = 0;
  run.kv.lookup_tokens = 200;
  run.kv.hit_tokens = 50;
  run.kv.retractions = 3;
  run.kv.recomputed_tokens = 700;
  run.memory.items = {{"routed experts", Bytes(2 * kGiB)}, {"extra copies", Bytes(kGiB)}, {"kv pool", Bytes(3 * kGiB)}};
  run.memory.kv_pool = Bytes(3 * kGiB);
  run.memory.kv_bytes_per_token = Bytes(70272);
  run.memory.copies = 1_GiB;
  run.memory.over_mean = {1_GiB, Bytes(-kGiB / 2)};  // GPU 1 has fewer experts than one without copies would
  run.memory.lost_to_extras = 0.25;                  // 1 GiB of the 4 GiB that the pool would have
}

inline RunResult sample_run(const std::string& label = "eplb") {
  RunResult run;
  run.label = label;
  run.plan_summary = "one copy more per layer";
  run.fingerprint = "00000000deadbeef";
  add_requests(run);
  add_steps(run);
  add_memory(run);
  run.conservation = {.assignments_routed = 400,
                      .assignments_executed = 400,
                      .bytes_sent = 30e9,
                      .bytes_received = 30e9,
                      .little_l = 0.4375,  // (1.5 s + 0.25 s) / 4 s
                      .little_lambda_w = 0.4375};
  return run;
}

// Requests that never ran: one was admitted without a token, one has a token, one waits. No step, no layer, no link.
inline RunResult empty_run() {
  RunResult run;
  run.label = "base";
  run.interrupted = true;
  run.end = at_ms(1000);
  run.gpus = 2;
  run.kv.blocks_per_rank = 100;
  run.requests = {request(RequestState::kRunning, at_ms(0), at_ms(0), Ticks{}, Ticks{}, 7),
                  request(RequestState::kRunning, at_ms(0), at_ms(100), at_ms(150), Ticks{}, 7),
                  request(RequestState::kWaiting, at_ms(500), Ticks{}, Ticks{}, Ticks{}, 7)};
  return run;
}

}  // namespace epsim::test
