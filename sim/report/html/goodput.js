// A goodput study: throughput-TTFT curves with their knees, and how the verdict depends on k.

const estimate = (value) => (value && typeof value === "object" ? num(value.mean) : num(value));
const halfWidth = (value) => (value && typeof value === "object" ? num(value.half_width) : NaN);

// A line per policy and seed: TTFT against the completed or offered rate; knees as stars.
const curveChart = (curve, knees, spec) => {
  const keys = [...new Set(curve.rows.map((row, i) => spec.seriesOf(i)))];
  const groups = [...new Set(keys.map(spec.groupOf))];
  const x = curve.numbers("measured_offered_requests_per_s"), y = curve.numbers("measured_ttft_mean_ms"), stable = curve.numbers("stable");
  const toneOfGroup = (key) => toneOf(spec.groupOf(key), groups.indexOf(spec.groupOf(key)));
  const datasets = keys.map((key) => {
    const mine = [...x.keys()].filter((i) => spec.seriesOf(i) === key).sort((a, b) => x[a] - x[b]);
    return { label: key, data: mine.map((i) => ({ x: x[i], y: y[i] })), tone: toneOfGroup(key), borderWidth: 1.5,
             pointStyle: mine.map((i) => (stable[i] ? "circle" : "crossRot")), pointRadius: mine.map((i) => (stable[i] ? 2.5 : 4)),
             borderDash: dashes[keys.filter((other) => spec.groupOf(other) === spec.groupOf(key)).indexOf(key) % dashes.length] };
  });
  const stars = knees.map((knee) => ({ label: `knee of ${knee.label}`, data: [{ x: knee.x, y: knee.y }], showLine: false, unlisted: true, pointStyle: "star", pointRadius: 10, borderWidth: 2.5, tone: toneOfGroup(knee.label) }));
  return chart({ type: "line", tall: true, near: true, log: true, x: "offered load [requests/s]", y: "mean TTFT [ms]", title: spec.title, term: "measured_ttft_mean_ms",
    note: spec.note, datasets: [...datasets, ...stars], data: { names: curve.names, rows: curve.rows } });
};

// The curves of a study's folder.
const studyCurves = (root, title) => {
  const curve = csvFile(join(root, "curve.csv")), byK = csvFile(join(root, "goodput.csv"));
  const policy = curve.texts("policy"), seed = curve.texts("seed");
  const name = (p, s) => `${p}, seed ${s}`;
  const knees = byK.rows.map((_, i) => i).filter((i) => byK.numbers("knee_searched")[i] === 1)
    .map((i) => ({ label: name(byK.texts("policy")[i], byK.texts("seed")[i]), x: byK.numbers("knee_requests_per_s")[i], y: byK.numbers("knee_ttft_mean_ms")[i] }));
  return curveChart(curve, knees, { title, note: "Stars are knees. Crosses are rates at which the run was not steady. The TTFT axis is logarithmic.",
    seriesOf: (i) => name(policy[i], seed[i]), groupOf: (key) => key.slice(0, key.lastIndexOf(", seed ")) });
};

const goodputSections = (root) => {
  const study = jsonFile(join(root, "goodput.json")), curve = csvFile(join(root, "curve.csv")), byK = csvFile(join(root, "goodput.csv"));
  seePolicies(study.policies.map((p) => p.policy));
  const columns = [{ name: "policy", text: true }];
  const figures = [["knee_requests_per_s", "Knee", (p) => p.knee.knee_requests_per_s], ["knee_ratio", "Knee, over the first", (p) => p.knee.knee_ratio],
    ["knee_ttft_mean_ms", "TTFT at the knee", (p) => p.knee.knee_ttft_mean_ms], ["saturation_requests_per_s", "Saturation", (p) => p.saturation_requests_per_s],
    ["saturation_ratio", "Saturation, over the first", (p) => p.saturation_ratio], ["idle_ttft_mean_ms", "TTFT alone", (p) => p.idle_ttft_mean_ms],
    ["knee_tpot_mean_ms", "TPOT at the knee", (p) => p.knee_tpot_mean_ms], ["slo_goodput_requests_per_s", "Within bounds", (p) => p.slo_goodput_requests_per_s],
    ["kv_lost_to_copies_share", "KV lost to copies", (p) => p.kv_lost_to_copies_share], ["kv_tokens_per_rank", "KV per rank", (p) => p.kv_tokens_per_rank]];
  for (const [name, text] of figures) {
    columns.push({ name, label: text });
    if (name.startsWith("knee_r") || name.startsWith("saturation")) columns.push({ name: "half_width", label: "±" });
  }
  const rows = study.policies.map((p) => [p.policy, ...figures.flatMap(([name, , of]) => (name.startsWith("knee_r") || name.startsWith("saturation") ? [estimate(of(p)), halfWidth(of(p))] : [estimate(of(p))]))]);
  const node = section("Results", table("Goodput by policy", columns, rows, { note: `${seedNote(study.method.seeds)}; ± is half the width of the 95 % interval.` }));
  for (const text of study.conclusions) node.append(el("p", {}, text));
  node.append(el("p", { class: "note" }, study.method.knee_rule), el("p", { class: "note" }, study.method.measured_part_rule));

  section("Throughput and TTFT", !curve || !byK ? absent("No curve.csv and goodput.csv in this folder, so there are no curves.") : studyCurves(root, "TTFT against offered load"));
  const sensitivity = (pick, title, yName, text) => lines({ title, term: yName, x: "k", xName: "k", y: withUnit(text, yName), yName },
    study.policies.map((p) => ({ label: p.policy, x: p.sensitivity.map((s) => s.k), y: p.sensitivity.map((s) => estimate(pick(s))) })));
  section("How it depends on k", el("p", {}, `The mean TTFT at the knee is k times that of an idle instance; the study searched for k = ${study.method.k}.`),
    el("div", { class: "grid" }, sensitivity((s) => s.knee_requests_per_s, "Knee by k", "knee_requests_per_s", "request rate at the knee"),
      sensitivity((s) => s.knee_ratio, "Knee over that of the first policy, by k", "knee_ratio", "ratio")));
  inputsSection([{ name: "all policies", document: study, resolved: report.files[join(root, "resolved.yaml")] }]);
};
