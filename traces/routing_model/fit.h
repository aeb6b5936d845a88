// Fits a routing model to a trace.
//
//   From tokens : popularity; loadings (principal components of the sequences' log shares); sigma by layer, so that
//                 batches of 256 consecutive tokens of generated traces are as skewed as the trace's; stretch_ratio and
//                 domain_ratio likewise from 64 and 4096 tokens; kind_share from the affinity within tokens; repeat
//                 from how many experts successive tokens share; lengths of sequences.
//   From loads  : popularity; with at least `kRowsForSigma` rows, sigma by layer from how shares vary between rows of
//                 one source. Everything else keeps RoutingFitOptions::defaults, and the model says so in `assumed`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/core/rng.h"
#include "traces/format/trace.h"
#include "traces/routing_model/routing_model.h"

namespace epsim {

inline constexpr std::int64_t kRowsForSigma = 16;

// Topics of workloads of which only load totals are known. sigma, stretch_ratio, kinds and repeat: what this fit finds
// in gpt-oss-20b's per-token routing (702 generated answers,
// github.com/AmanPriyanshu/GPT-OSS-MoE-ExpertFingerprinting), rounded; model_shared_test.cpp holds them against it.
// domain_ratio: between SGLang's published DeepSeek-R1 windows of 2048- and 4096-token inputs the logarithms of the
// shares differ by 0.126 (deviation, mean over layers), so each window has drifted by 0.089, which is 0.1 of sigma.
RoutingModel default_topics();
inline constexpr double kDefaultSigma = 0.85;

struct RoutingFitOptions {
  std::string name;
  RoutingModel defaults = default_topics();  // parts that the trace says nothing about
  double sigma = kDefaultSigma;              // likewise, of every layer
  int fitted_factors = 12;                   // from tokens
  int kinds = 3;                             // likewise; they carry the affinity within a token
  int rounds = 12;                           // of simulation; each costs 10^5 tokens
  Seed seed{1};
};

// Keeps a trace in memory: loads as their sums and moments, tokens as they are, up to 2^20 of them.
class TraceCollector final : public TraceSink {
 public:
  void begin(const TraceInfo& info, int sources) override;
  void loads(const LoadRow& row) override;
  void tokens(const TokenBlock& block) override;
  void table(const std::string& name, const Table& table) override;

  // Throws InputError, naming the trace's source, when a layer has no load at all.
  RoutingModel fit(const RoutingFitOptions& options) const;

 private:
  RoutingModel fit_popularity(const RoutingFitOptions& options) const;

  TraceInfo info_;
  std::size_t sources_ = 1;
  std::int64_t rows_ = 0, row_tokens_ = 0, all_tokens_ = 0;
  std::vector<double> sums_;        // [layer][expert]
  std::vector<double> share_sums_;  // [layer][source][expert] of rows, and squares
  std::vector<double> share_squares_;
  std::vector<std::uint16_t> experts_;  // [token][layer][k]
  std::vector<std::int32_t> sequence_;
};

// The part of TraceCollector::fit() that needs single tokens (token_fit.cpp). `m` has the popularity already.
struct TokenTrace {
  const TraceInfo& info;
  std::span<const std::uint16_t> experts;  // [token][layer][k]
  std::span<const std::int32_t> sequence;  // [token]
};
RoutingModel fit_tokens(const TokenTrace& trace, const RoutingFitOptions& options, RoutingModel m);

}  // namespace epsim
