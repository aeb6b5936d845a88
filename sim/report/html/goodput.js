// A goodput study: the rate that each policy serves, and what the requests see on the way there.

const estimate = (value) => (value && typeof value === "object" ? num(value.mean) : num(value));
const halfWidth = (value) => (value && typeof value === "object" ? num(value.half_width) : NaN);

// What a run of a policy is drawn as: --branches also has aligned ones, and some after a backlog.
const branchOf = (policy, aligned, backlog) => `${policy}${aligned ? ", prompts together" : ""}${backlog ? ", after a backlog" : ""}`;

// Every run of a study: {policy, seed, rate, stable, holds, attainment, ttft: {mean, p99, ...}, tpot}, latencies in ms; of the
// file goodput.json, or of curve.csv where that has none.
const probesOf = (study, curve) => {
  const inMs = (figures) => Object.fromEntries(Object.entries(figures ?? {}).map(([name, seconds]) => [name, 1e3 * num(seconds)]));
  if (study?.searches) {
    return study.searches.flatMap((search) => [...search.curve, ...(search.after_backlog ?? [])].map((p) => ({ policy: branchOf(search.policy, search.aligned, p.backlog_requests), seed: String(search.seed), rate: p.measured_offered_requests_per_s ?? p.offered_requests_per_s, stable: Boolean(p.stable),
      holds: p.slo_holds, attainment: num(p.attainment), ttft: inMs(p.ttft), tpot: inMs(p.tpot), e2e: inMs(p.e2e) })));
  }
  const column = (name) => (curve.has(name) ? curve.numbers(name) : curve.rows.map(() => NaN)), of = (metric) => ({ mean: column(`measured_${metric}_mean_ms`), p99: column(`measured_${metric}_p99_ms`) });
  const rate = column("measured_offered_requests_per_s"), stable = column("stable"), attainment = column("attainment_share"), ttft = of("ttft"), tpot = of("tpot"), aligned = column("aligned"), backlog = column("backlog_requests");
  return curve.rows.map((_, i) => ({ policy: branchOf(curve.texts("policy")[i], aligned[i] === 1, backlog[i] > 0), seed: curve.has("seed") ? curve.texts("seed")[i] : "", rate: rate[i], stable: stable[i] === 1, attainment: attainment[i],
    ttft: { mean: ttft.mean[i], p99: ttft.p99[i] }, tpot: { mean: tpot.mean[i], p99: tpot.p99[i] } }));
};

// Runs far above every steady one, as a search's first, would leave the rest a corner of the chart; the tables have them.
const near = (probes) => {
  const most = 1.5 * (d3.max(probes.filter((p) => p.stable), (p) => p.rate) ?? Infinity);
  return probes.filter((p) => p.rate <= most);
};

// What the marks are, of those that are drawn.
const probesNote = (probes, stars) => [new Set(probes.map((p) => p.seed)).size > 1 ? "A colour per policy, a dash per seed." : "A colour per policy.", stars.length > 0 ? "Stars are knees." : "",
  near(probes).some((p) => !p.stable) ? "Crosses are rates at which the run was not steady." : "", near(probes).length < probes.length ? "Rates far above every steady one are in the tables alone." : ""].filter((text) => text).join(" ");

// One figure of every run against the rate offered: a colour per policy, a dash per seed. Crosses are runs that were not steady.
// stars: [{policy, seed, x, y}].
const againstRate = (probes, valueOf, stars, spec) => {
  const shownProbes = near(probes), policies = [...new Set(probes.map((p) => p.policy))];
  const datasets = policies.flatMap((policy) => [...new Set(shownProbes.filter((p) => p.policy === policy).map((p) => p.seed))].map((seed, s) => ({
    label: policy, unlisted: s > 0, thick: 1.5, dash: dashes[s % dashes.length],
    data: shownProbes.filter((p) => p.policy === policy && p.seed === seed).sort((a, b) => a.rate - b.rate)
      .map((p) => ({ x: p.rate, y: valueOf(p), mark: p.stable ? undefined : cross, size: p.stable ? 4 : 5, about: [seed ? `seed ${seed}` : "", p.stable ? "" : "not steady"].filter((text) => text).join(", ") })) })));
  const marked = stars.filter((star) => Number.isFinite(star.y)).map((star) => ({ label: star.policy, unlisted: true, line: false, data: [{ x: star.x, y: star.y, mark: d3.symbolStar, size: 11, about: spec.starText }] }));
  return chart({ type: "line", near: true, x: "offered load [requests/s]", ...spec, datasets: [...datasets, ...marked],
    data: { names: ["policy", "seed", "offered_requests_per_s", spec.yName, "stable"], rows: probes.map((p) => [p.policy, p.seed, p.rate, valueOf(p), p.stable ? 1 : 0]) } });
};

// The knees of goodput.csv, as stars.
const kneesOf = (byK) => (byK?.has("knee_searched") ? d3.range(byK.rows.length).filter((i) => byK.numbers("knee_searched")[i] === 1)
  .map((i) => ({ policy: branchOf(byK.texts("policy")[i], byK.has("aligned") && byK.numbers("aligned")[i] === 1, false), seed: byK.texts("seed")[i], x: byK.numbers("knee_requests_per_s")[i], y: byK.numbers("knee_ttft_mean_ms")[i] })) : []);

// The TTFT curves of a study's folder.
const studyCurves = (root, title) => {
  const probes = probesOf(null, csvFile(join(root, "curve.csv"))), stars = kneesOf(csvFile(join(root, "goodput.csv")));
  return againstRate(probes, (p) => p.ttft.mean, stars, { title, term: "measured_ttft_mean_ms", yName: "ttft_mean_ms", y: "mean TTFT [ms]", log: true, tall: true, starText: "knee", note: probesNote(probes, stars) });
};

// A latency against the rate, at each statistic that the SLO bounds, else its mean; the bound is a line.
const latencyCurves = (study, probes, metric, stars) => {
  const name = metric.toUpperCase(), terms = (study.slo?.terms ?? []).filter((term) => term.metric.toLowerCase() === metric);
  const drawnTerms = terms.length > 0 ? terms : [{ stat: "mean", bound_s: NaN }];
  return drawnTerms.map(({ stat, bound_s }) => {
    const each = !(stat in (probes[0]?.[metric] ?? {})), shownStat = each ? "p99" : stat, bound = 1e3 * num(bound_s);  // a bound on each request has no statistic of its own
    const log = metric === "ttft";
    return againstRate(probes, (p) => num(p[metric][shownStat]), shownStat === "mean" ? stars : [], { title: `${name} ${shownStat} against offered load`, term: `measured_${metric}_${shownStat}_ms`, yName: `${metric}_${shownStat}_ms`, y: `${name} ${shownStat} [ms]`, log, tall: true, starText: "knee",
      rules: Number.isFinite(bound) ? [{ y: bound, label: `SLO: ${name}${each ? " of a request" : ` ${stat}`} ${shown(bound)} ms` }] : [] });
  });
};

// Figures by policy: [name, label, figure of a policy]; those with a half width are told with it.
const goodputFigures = (slo) => (slo ?
  [["slo_requests_per_s", "Rate within the SLO", (p) => p.slo_requests_per_s], ["slo_attainment_share", "Attainment there", (p) => p.slo_attainment_share], ["slo_ttft_mean_ms", "TTFT mean there", (p) => p.slo_ttft_mean_ms],
    ["slo_ttft_p99_ms", "TTFT p99 there", (p) => p.slo_ttft_p99_ms], ["slo_tpot_mean_ms", "TPOT mean there", (p) => p.slo_tpot_mean_ms], ["slo_tpot_p99_ms", "TPOT p99 there", (p) => p.slo_tpot_p99_ms]] :
  [["knee_requests_per_s", "Knee", (p) => p.knee?.knee_requests_per_s], ["knee_ttft_mean_ms", "TTFT at the knee", (p) => p.knee?.knee_ttft_mean_ms], ["knee_tpot_mean_ms", "TPOT at the knee", (p) => p.knee_tpot_mean_ms],
    ["saturation_requests_per_s", "Saturation", (p) => p.saturation_requests_per_s], ["idle_ttft_mean_ms", "TTFT alone", (p) => p.idle_ttft_mean_ms]])
  .concat([["aligned_requests_per_s", "Prompts together", (p) => p.aligned_requests_per_s], ["kv_tokens_per_rank", "KV room per rank", (p) => p.kv_tokens_per_rank], ["kv_lost_to_copies_share", "KV lost to extras", (p) => p.kv_lost_to_copies_share]]);

// What the answer and the terminal call the two policies that others are held against.
const plainNames = { contiguous: "load balancing off", base: "placement alone" };

const goodputTable = (study, slo, best) => {
  const figures = goodputFigures(slo).filter(([, , of]) => study.policies.some((p) => Number.isFinite(estimate(of(p)))));
  const ratioOf = (p, i) => (i > 0 ? NaN : estimate(slo ? p.slo_ratio : p.knee?.knee_ratio) - 1), ratioHalf = (p) => halfWidth(slo ? p.slo_ratio : p.knee?.knee_ratio), limit = study.policies.some((p) => p.slo_limit);
  const byName = (row) => study.policies.find((p) => p.policy === row[0]), order = [...study.policies].sort((a, b) => estimate(figures[0][2](b)) - estimate(figures[0][2](a)));
  const columns = [{ name: "policy", text: true, show: (row) => el("span", { class: "policy" }, row[0] === best ? "★ " : "", swatch(row[0]), row[0], row[0] in plainNames ? el("span", { class: "change even" }, plainNames[row[0]]) : null) },
    ...figures.map(([name, text, of], i) => ({ name, label: text, show: (row) => {
      const p = byName(row), half = halfWidth(of(p)), ratio = row[0] === study.compared_with ? NaN : ratioOf(p, i);
      return el("span", {}, cellText({ name }, row[i + 1]) + (half > 0 ? ` ± ${shown(Number((isShare({ name }) ? 100 * half : half).toPrecision(2)))}` : ""), difference(name, ratio, ratioHalf(p)));
    } })), ...(limit ? [{ name: "slo_limit", label: "Bound by", text: true }] : [])];
  const rows = order.map((p) => [p.policy, ...figures.map(([, , of]) => estimate(of(p))), ...(limit ? [p.slo_limit] : [])]);
  return table("Goodput by policy", columns, rows, { winner: rows.findIndex((row) => row[0] === best), note: `${sentence(seedNote(study.method.seeds))}${study.method.seeds > 1 ? "; ± is half the width of the 95 % interval" : ""}.${rows.length > 1 ? ` Small print: difference from ${study.compared_with}.` : ""}` });
};

const goodputSections = (root) => {
  const study = jsonFile(join(root, "goodput.json")), curve = csvFile(join(root, "curve.csv")), slo = Boolean(study.slo), [name, , of] = goodputFigures(slo)[0];
  seePolicies(study.policies.map((p) => p.policy));
  const finite = study.policies.filter((p) => Number.isFinite(estimate(of(p)))), best = study.verdict?.policy ?? finite.sort((a, b) => estimate(of(b)) - estimate(of(a)))[0]?.policy;
  const seeds = `${study.method.seeds}${study.method.same_requests ? ", the same requests for all policies" : ""}`;
  const sure = study.method.seeds > 1 ? `${study.method.seeds} seeds; ± is half the width of the 95 % interval of the mean` : "one seed, so no interval: --seeds 3 gives one";
  const node = section("Results", headOf(root, `request rate of ${study.policies.map((p) => p.policy).join(", ")} ${slo ? `within the SLO ${study.slo.text}` : "at the knee"}`, { seeds, version: study.epsim_version, rate: "rates searched" }),
    verdict([study.verdict?.text ?? study.conclusions.find((words) => words.startsWith(`${best} `)) ?? `No policy serves more than ${best}.`], [["SLO", study.slo?.text], ["How sure", sure], ["Method", study.method.rate_rule ?? study.method.knee_rule]]), goodputTable(study, slo, best));
  const bars = study.policies.map((p) => ({ policy: p.policy, y: estimate(of(p)), half: halfWidth(of(p)) }));
  const rateBars = chart({ type: "bar", stacked: true, title: slo ? "Highest rate at which the SLO holds" : "Request rate at the knee", term: name, x: "policy", y: "requests/s", labels: bars.map((b) => b.policy),
    datasets: bars.map((bar) => ({ label: bar.policy, unlisted: true, data: bars.map((other) => (other === bar ? { y: bar.y, ...(bar.half > 0 ? { low: bar.y - bar.half, high: bar.y + bar.half } : {}) } : NaN)) })),
    data: { names: ["policy", name, "half_width"], rows: bars.map((b) => [b.policy, b.y, b.half]) } });
  const probes = study.searches || curve ? probesOf(study, curve) : [], stars = kneesOf(csvFile(join(root, "goodput.csv")));
  const attained = probes.some((p) => Number.isFinite(p.attainment)) ? [againstRate(probes, (p) => p.attainment, [], { title: "Attainment against offered load", term: "attainment_share", yName: "attainment_share", y: "share of requests within the bounds", most: 1, tall: true,
    rules: Number.isFinite(num(study.slo?.attainment)) ? [{ y: num(study.slo.attainment), label: `SLO: ${shown(100 * num(study.slo.attainment))} %` }] : [] })] : [];
  const split = gainSplitTable(study.gain_split);
  if (split) node.append(split);
  if (study.conclusions.length > 0) node.append(el("details", { open: !study.verdict && study.conclusions.length > 1 }, el("summary", {}, "Every comparison in words"), ...study.conclusions.map((words) => el("p", {}, words)), el("p", { class: "note" }, study.method.measured_part_rule)));
  section("Against the offered load", probes.length === 0 ? absent("No curve.csv and goodput.csv in this folder, so there are no curves.") :
    el("p", { class: "note" }, probesNote(probes, stars)),
    el("div", { class: "grid" }, rateBars, ...attained, ...(probes.length > 0 ? [...latencyCurves(study, probes, "ttft", stars), ...latencyCurves(study, probes, "tpot", []), ...(study.slo?.terms?.some((t) => t.metric === "e2e") ? latencyCurves(study, probes, "e2e", []) : [])] : [])));
  if (study.policies.every((p) => p.sensitivity)) {
    const sensitivity = (pick, title, yName, words) => lines({ title, term: yName, x: "k", xName: "k", y: withUnit(words, yName), yName },
      study.policies.map((p) => ({ label: p.policy, x: p.sensitivity.map((s) => s.k), y: p.sensitivity.map((s) => estimate(pick(s))) })));
    section("How it depends on k", el("p", {}, `The mean TTFT at the knee is k times that of an idle instance; the study searched for k = ${study.method.k}.`),
      el("div", { class: "grid" }, sensitivity((s) => s.knee_requests_per_s, "Knee by k", "knee_requests_per_s", "request rate at the knee"),
        sensitivity((s) => s.knee_ratio, "Knee over that of the first policy, by k", "knee_ratio", "ratio")));
  }
  inputsSection([{ name: "all policies", document: study, resolved: report.files[join(root, "resolved.yaml")] }]);
};
