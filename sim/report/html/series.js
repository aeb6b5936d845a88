// A run on its time axis: series.csv has a row for each stretch of time.

const seriesFigures = [["running_requests", "Running requests", "requests"], ["queued_requests", "Queued requests", "requests"], ["kv_use_share", "KV cache in use", "share of the blocks"],
  ["output_tokens_per_s", "Output tokens", "tokens/s"], ["ttft_mean_ms", "TTFT at the first token", "mean TTFT [ms]"]];

const overTimeSection = (runs) => {
  const known = runs.filter((run) => run.series?.rows.length > 0);
  if (known.length === 0) { section("Over time", absent("No series.csv with rows in this folder, so there are no curves over time.")); return; }
  const curve = ([name, title, y]) => lines({ title: `${title} over time`, term: name, x: "time [s]", xName: "start_s", y, yName: name, zero: true, zeroX: true, most: name === "kv_use_share" ? 1 : undefined },
    known.map((run) => ({ label: label(run), x: run.series.numbers("start_s"), y: run.series.numbers(name), style: { size: 0, steps: true, thick: 1.5 } })));
  section("Over time", el("p", {}, "Means over stretches of equal length. A queue that grows for as long as requests arrive is overload: latencies then depend on how long that is."),
    el("div", { class: "grid" }, ...seriesFigures.filter(([name]) => known.some((run) => run.series.has(name) && run.series.numbers(name).some(Number.isFinite))).map(curve)));
};
