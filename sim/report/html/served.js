// Served points: what was measured and what is predicted, every point, and the errors by group.

const inPercent = (share) => (Number.isFinite(num(share)) ? `${(100 * num(share)).toFixed(1)} %` : "–");
const servedMetrics = [["tpot", "TPOT"], ["ttft", "TTFT"], ["e2e", "end-to-end time"]];

// Predicted against measured, both logarithmic: a mark a point, a colour for each text of `series`; on the line they agree.
const servedChart = (study, points, [metric, name], series) => {
  const all = points.filter((p) => p[`predicted_${metric}_ms`] > 0 && p[`measured_${metric}_ms`] > 0);
  if (all.length === 0) return null;
  const x = (p) => p[`measured_${metric}_ms`], y = (p) => p[`predicted_${metric}_ms`], ends = d3.extent(all.flatMap((p) => [x(p), y(p)]));
  const about = (p) => `${p.group}, ${p.in_flight ?? "?"} in flight, ${inPercent(p[`error_${metric}_share`])}`;
  return chart({ type: "line", near: true, tall: true, log: true, logX: true, title: `${sentence(name)}, predicted against measured`, note: `${study.statistic === "mean" ? "Means" : "Medians"}. On the dashed line they are equal.`,
    x: `measured [ms]`, y: `predicted [ms]`,
    datasets: [{ label: "equal", colour: css("--faint"), dash: "4 3", mark: d3.symbolCircle, size: 0, thick: 1.5, data: ends.map((v) => ({ x: v, y: v })) },
      ...[...new Set(all.map(series))].map((label) => ({ label, line: false, data: all.filter((p) => series(p) === label).map((p) => ({ x: x(p), y: y(p), about: about(p), size: 4 })) }))],
    data: { names: ["row", "group", "in_flight", `measured_${metric}_ms`, `predicted_${metric}_ms`], rows: all.map((p) => [p.row, p.group, p.in_flight, x(p), y(p)]) } });
};

// All groups have more names than colours can tell apart: one part of the name has the colours, and one group can be shown alone.
const servedCharts = (study) => {
  const expressed = study.rows.filter((p) => p.predicted_tpot_ms > 0 || p.predicted_ttft_ms > 0), groups = [...new Set(expressed.map((p) => p.group))].sort();
  const grid = (points, series) => el("div", { class: "grid" }, ...servedMetrics.map((metric) => servedChart(study, points, metric, series)).filter((one) => one));
  if (groups.length < 2) return grid(expressed, (p) => p.group);
  const partOf = (p, part) => { const parts = p.group.split(" "); return parts.length === study.group_names.length ? parts[part] : p.group; };
  return chosenChart([{ label: "Colours by", options: study.group_names.map((name, i) => [String(i), name]), value: "0" },
    { label: "Points of", options: [["", "all groups"], ...groups.map((name) => [name, name])], value: "" }],
    ([part, only]) => grid(expressed.filter((p) => only === "" || p.group === only), (p) => partOf(p, Number(part))));
};

const servedErrorsTable = (study) => {
  const columns = [...study.group_names, "in flight"].map((name) => ({ name, label: name, text: true }));
  for (const [, name] of servedMetrics) for (const figure of ["median", "mean", "p90", "bias"]) columns.push({ name: `${name} ${figure}`, label: `${name} ${figure}, %`, note: figure === "bias" ? "Mean of predicted / measured - 1." : `${sentence(figure)} of |predicted / measured - 1|.` });
  columns.splice(study.group_names.length + 1, 0, { name: "points", label: "points" });
  const cells = (errors) => servedMetrics.flatMap(([metric]) => ["median", "mean", "p90", "bias"].map((figure) => Number((100 * num(errors[metric][`${figure}_share`])).toFixed(1))));
  const row = (labels, errors) => [...labels, errors.tpot.points, ...cells(errors)];
  return table("Errors by group", columns, [...study.groups.map((g) => row(g.labels, g.errors)), row(["all", ...study.group_names.map(() => "")], study.errors)], { long: true });
};

const servedCounts = (title, note, counts) => (counts.length === 0 ? null : table(title, [{ name: "points", label: "points" }, { name: "alone", label: "alone", note: "Points that have no other." }, { name: "text", label: "what", text: true }],
  counts.map((c) => [c.points, c.alone, c.text]), { note }));

const servedHint = (hint) => {
  const head = `${hint.labels.join(" ")}, ${hint.metric.toUpperCase()}`;
  if (!hint.term && hint.mean_left_share >= hint.mean_share) return `${head}: no single term would leave less than its mean error of ${inPercent(hint.mean_share)}.`;
  const what = hint.term ? `${hint.term} x ${shown(hint.factor)}` : `${shown(1e3 * Math.abs(hint.added_s))} ms ${hint.added_s < 0 ? "less" : "more"} a ${hint.metric === "tpot" ? "token" : "request"}`;
  return `${head}: ${what} would leave a mean error of ${inPercent(hint.mean_left_share)} (now ${inPercent(hint.mean_share)}).`;
};

const servedSections = (root) => {
  const study = jsonFile(join(root, "served.json")), tpot = study.errors.tpot, ttft = study.errors.ttft;
  setTitle(`${study.points} served points: predicted and measured`);
  section("Predicted and measured", verdict([`${study.expressed} of ${study.points} measured points are expressed; their TPOT is ${inPercent(tpot.mean_share)} off on average, their TTFT ${inPercent(ttft.mean_share)}.`],
    [["Half of them are within", `TPOT ${inPercent(tpot.median_share)}, TTFT ${inPercent(ttft.median_share)}`], ...(study.repeats.tpot.pairs > 0 ? [["Repeats differ by", `TPOT ${inPercent(study.repeats.tpot.median_share)}, TTFT ${inPercent(study.repeats.ttft.median_share)} (median of ${study.repeats.tpot.pairs} pairs)`]] : [])], ""),
    servedCharts(study), servedErrorsTable(study));
  if (study.hints.length > 0) section("Where to look first", el("p", { class: "note" }, "The one term that, changed alone, leaves the least error. No price is changed by it."), ...study.hints.map((hint) => el("p", {}, servedHint(hint))));
  const counts = [servedCounts("Not expressed", "Why epsim has no scenario for a point.", study.unexpressed), servedCounts("Expressed with a stand-in", "What replaces what.", study.stand_ins)].filter((one) => one);
  if (counts.length > 0) section("What was compared", ...counts);
};
