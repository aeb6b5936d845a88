// One instance of a model as a discrete-event process: requests arrive and are routed to DP ranks; steps run one after
// another, and every rank takes part in each, with a batch or idle. A step starts when the previous one has ended, or
// with an arrival when the instance was idle.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/fingerprint.h"
#include "sim/domain/request_trace.h"
#include "sim/domain/step.h"
#include "sim/engine/event_queue.h"
#include "sim/serving/dp_rank.h"
#include "sim/serving/events.h"
#include "sim/serving/router.h"
#include "sim/serving/run_control.h"
#include "sim/serving/run_result.h"
#include "sim/serving/run_tally.h"
#include "sim/serving/serving_options.h"

namespace epsim {

class Instance {
 public:
  // All arguments must outlive the instance; every request of the trace must fit a rank's KV pool.
  Instance(const RequestTrace& trace, const ServingOptions& options, StepPricer& pricer, const RunControl& control);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Runs to the end of the trace's last request, or until told to stop. Once.
  void run();
  // After run(): the audited result.
  RunResult take_result();

 private:
  void on(const StepDone& event);
  void on(const RequestArrived& event);
  void on(const StepDue& event);

  void expect_arrival(std::size_t request);
  void expect_step();
  bool stop_wanted() const;
  bool any_work() const;
  void start_step();
  void report_progress() const;
  KvStats kv_stats() const;

  const RequestTrace& trace_;
  const ServingOptions& options_;
  StepPricer& pricer_;
  const RunControl& control_;

  EventQueue<ServingEvent> queue_;
  Ticks now_{};
  RunResult result_;  // its records are the ranks' table: never resized
  std::vector<DpRank> ranks_;
  RequestRouter router_;
  std::vector<RankBatch> batches_;
  RunTally tally_;
  Fingerprint fingerprint_;
  std::int64_t arrived_ = 0;
  bool step_expected_ = false;  // a step is under way or a StepDue is pending
};

}  // namespace epsim
