// A sweep: any figure against any key that varied, maps over two keys, and one figure against another.

// The keys that tell the points apart; with `all`, those of one value too.
const leadOf = (sweep, results, all) => [...sweep.axes.map((axis) => axis.key), ...(results.has("policy") && sweep.policies.length > 0 ? ["policy"] : [])].filter((key) => all || valuesOf(sweep, key).length > 1);

// "cluster.nodes" is "nodes", and "craft.replication_factor" "replication factor", where no other key ends like it.
const shortKey = (sweep, key) => {
  const last = (name) => name.slice(name.lastIndexOf(".") + 1);
  return sweep.axes.filter((axis) => last(axis.key) === last(key)).length > 1 ? key : last(key).replaceAll("_", " ");
};
// Which point a row is, in words, by the keys given.
const nameOf = (sweep, results, i, keys) => keys.map((key) => (key === "policy" ? results.texts(key)[i] : `${shortKey(sweep, key)} ${results.texts(key)[i]}`)).join(", ");

// "8/s" is 8; null unless every value is a number with at most a unit, the same for all, and no two are alike.
const numbersOf = (values) => {
  const parts = values.map((value) => /^(-?[\d.]+(?:e[-+]?\d+)?)(\D*)$/i.exec(value));
  if (parts.some((part) => !part) || new Set(parts.map((part) => part[2])).size > 1) return null;
  const out = parts.map((part) => Number(part[1]));
  return out.every(Number.isFinite) && new Set(out).size === values.length ? out : null;
};
const valuesOf = (sweep, key) => (key === "policy" ? sweep.policies : sweep.axes.find((axis) => axis.key === key).values);

// Mean over the points of one series and place (over seeds), with the 95 % interval of that mean.
const studentT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
const tOf = (freedom) => studentT[freedom - 1] ?? 1.96 + 2.3724 / freedom + 2.8226 / freedom ** 2 + 2.556 / freedom ** 3;  // Abramowitz and Stegun 26.7.5
const meanOf = (values) => {
  const known = values.filter((v) => !Number.isNaN(v)), n = known.length;
  if (n === 0) return { y: NaN };
  const y = d3.mean(known);
  if (n === 1) return { y };
  const half = (tOf(n - 1) * d3.deviation(known)) / Math.sqrt(n);
  return { y, low: y - half, high: y + half };
};

// One figure against one key: lines where the key is a number, bars where it is a name. Seeds are averaged, unless they are
// what is drawn against.
const sweepChart = (sweep, results, x, y) => {
  const values = valuesOf(sweep, x), numbers = x === "policy" ? null : numbersOf(values);
  const others = leadOf(sweep, results).filter((key) => key !== x && key !== "seed");
  const seeds = x === "seed" ? 1 : sweep.axes.find((axis) => axis.key === "seed")?.values.length ?? 1;
  const names = results.rows.map((_, i) => nameOf(sweep, results, i, others) || wordsOf(y)), at = results.texts(x), figures = results.numbers(y);
  const points = (key) => values.map((value) => meanOf(figures.filter((_, i) => names[i] === key && at[i] === value)));
  const series = [...new Set(names)].map((key) => ({ label: key, points: points(key) })).filter((one) => one.points.some((p) => Number.isFinite(p.y)));  // points that failed have no line
  const order = numbers ? d3.range(values.length).sort((a, b) => numbers[a] - numbers[b]) : d3.range(values.length);
  const sorted = numbers ? order.map((i) => numbers[i]) : [];
  const geometric = sorted.length > 3 && sorted[0] > 0 && sorted.at(-1) / sorted[0] >= 16;
  return chart({ type: numbers ? "line" : "bar", title: `${sentence(wordsOf(y))} against ${shortKey(sweep, x)}`, term: y, note: seeds > 1 ? `Mean over ${seeds} seeds with its 95 % interval.` : undefined,
    x: shortKey(sweep, x), y: withUnit(wordsOf(y), y), labels: numbers ? undefined : values, xTicks: sorted.length > 0 && sorted.length <= 9 ? sorted : undefined, logX: geometric,
    datasets: series.map((one) => ({ label: one.label, data: order.map((i) => (numbers ? { x: numbers[i], ...one.points[i] } : one.points[i])) })),
    data: { names: ["series", x, y], rows: series.flatMap((one) => order.map((i) => [one.label, values[i], one.points[i].y])) } });
};
const figureOptions = (figures) => figures.map((name) => [name, wordsOf(name)]);
const chosenSweepChart = (sweep, results, figures, x, y) => chosenChart([
  { label: "against", value: x, options: leadOf(sweep, results).map((key) => [key, shortKey(sweep, key)]) },
  { label: "figure", value: y, options: figureOptions(figures) },
], ([against, figure]) => sweepChart(sweep, results, against, figure));

// A figure over two keys; points that agree in both are averaged.
const sweepMap = (sweep, results, across, down, y) => {
  const rows = valuesOf(sweep, down), columns = valuesOf(sweep, across), r = results.texts(down), c = results.texts(across), figures = results.numbers(y);
  return heatmap({ title: `${sentence(wordsOf(y))} by ${shortKey(sweep, down)} and ${shortKey(sweep, across)}`, term: y, note: results.rows.length > rows.length * columns.length ? "Each cell is the mean of the points that have both values." : undefined,
    rowName: shortKey(sweep, down), columnName: shortKey(sweep, across), valueName: withUnit(wordsOf(y), y), rows, columns, cells: true,
    values: rows.map((row) => columns.map((column) => meanOf(figures.filter((_, i) => r[i] === row && c[i] === column)).y)) });
};

// One figure against another: every point, those that no other point beats in both joined by a line.
const paretoChart = (sweep, results, x, y) => {
  const lead = leadOf(sweep, results), xs = results.numbers(x), ys = results.numbers(y), better = (name, a, b) => (lowerIsBetter(name) ? a < b : a > b);
  const all = d3.range(results.rows.length).filter((i) => Number.isFinite(xs[i]) && Number.isFinite(ys[i]));
  const beaten = (i) => all.some((j) => !better(x, xs[i], xs[j]) && !better(y, ys[i], ys[j]) && (better(x, xs[j], xs[i]) || better(y, ys[j], ys[i])));
  const front = all.filter((i) => !beaten(i)).sort((a, b) => xs[a] - xs[b]), policies = results.has("policy") && sweep.policies.length > 0;
  const group = (i) => (policies ? results.texts("policy")[i] : "all points"), groups = [...new Set(all.map(group))], arrow = (name) => (lowerIsBetter(name) ? "lower is better" : "higher is better");
  const point = (i) => ({ x: xs[i], y: ys[i], about: nameOf(sweep, results, i, lead) });
  return chart({ type: "line", near: true, tall: true, title: `${sentence(wordsOf(y))} against ${wordsOf(x)}`, term: y, note: `Each mark is a point of the sweep. Those on the line are not beaten in both (${wordsOf(x)}: ${arrow(x)}; ${wordsOf(y)}: ${arrow(y)}).`,
    x: withUnit(wordsOf(x), x), y: withUnit(wordsOf(y), y),
    datasets: [{ label: "not beaten", colour: css("--faint"), dash: "4 3", mark: d3.symbolCircle, size: 0, thick: 1.5, data: front.map(point) },
      ...groups.map((name) => ({ label: name, line: false, data: all.filter((i) => group(i) === name).map((i) => ({ ...point(i), size: front.includes(i) ? 8 : 5, hollow: !front.includes(i) })) }))],
    data: { names: [...lead, x, y, "not_beaten"], rows: all.map((i) => [...lead.map((key) => results.texts(key)[i]), xs[i], ys[i], front.includes(i) ? 1 : 0]) } });
};

const sweepCurves = (root, sweep, results) => {
  const curve = csvFile(join(root, "curve.csv"));
  if (!curve) return;
  const most = 24, lead = leadOf(sweep, results), points = [...new Set(curve.texts("point"))].slice(0, most);
  const labels = new Map(results.texts("point").map((point, i) => [point, nameOf(sweep, results, i, lead)]));
  const kept = curve.where("point", (point) => points.includes(point)), of = kept.texts("point");
  const probes = probesOf(null, kept).map((probe, i) => ({ ...probe, policy: labels.get(of[i]), seed: "" }));
  const stars = results.has("knee_ttft_mean_ms") ? d3.range(results.rows.length).filter((i) => points.includes(results.texts("point")[i]))
    .map((i) => ({ policy: labels.get(results.texts("point")[i]), x: results.numbers("knee_requests_per_s")[i], y: results.numbers("knee_ttft_mean_ms")[i] })) : [];
  const node = section("Against the offered load", againstRate(probes, (p) => p.ttft.mean, stars, { title: "TTFT against offered load, by point", term: "measured_ttft_mean_ms", yName: "ttft_mean_ms", y: "mean TTFT [ms]", log: true, tall: true, starText: "knee",
    note: probesNote(probes, stars) }));
  if (points.length < new Set(curve.texts("point")).size) node.append(absent(`Only the first ${most} points are drawn; curve.csv has all of them.`));
};

// What the terminal says of a search; of runs, the best place by each of the figures given, as a mean over seeds.
const sweepVerdict = (root, sweep, results, figures) => {
  const lead = leadOf(sweep, results).filter((key) => key !== "seed"), policies = results.texts("policy"), names = results.rows.map((_, i) => nameOf(sweep, results, i, lead));
  const places = [...new Set(names.filter((_, i) => !sweep.not_for_use?.includes(policies[i])))], lower = lowerIsBetter;
  // Of places whose figures read the same that of the simplest policy, as winners.csv has it.
  const best = (figure) => {
    const values = results.numbers(figure), means = places.map((place) => ({ place, rank: policyRank(policies[names.indexOf(place)]), y: d3.mean(values.filter((_, i) => names[i] === place)) }));
    const sorted = means.filter(({ y }) => Number.isFinite(y)).sort((a, b) => (lower(figure) ? a.y - b.y : b.y - a.y));
    return sorted.filter(({ y }) => shown(y) === shown(sorted[0].y)).sort((a, b) => a.rank - b.rank)[0];
  };
  // Below saturation the rates served differ by the tails of the runs alone.
  const keepsUp = results.has("overloaded") && results.texts("overloaded").every((cell) => cell === "0" || cell === "false") && results.has("offered_requests_per_s") && results.numbers("offered_requests_per_s").every(Number.isFinite);
  const servedShare = keepsUp ? d3.min(d3.zip(results.numbers("requests_per_s"), results.numbers("offered_requests_per_s")), ([served, offered]) => served / offered) : NaN;
  const kept = servedShare >= 0.95 ? "Every point serves what is offered" : `No point is overloaded; at least ${Math.floor(100 * servedShare)} % of the rate offered is served, as the time after the last arrival counts too`;
  const told = figures.filter((name) => !keepsUp || name !== "requests_per_s").map((name) => [name, best(name)]).filter(([, place]) => place), found = report.files[join(root, "verdict.txt")];
  const text = ([name, { place, y }]) => `${lower(name) ? "lowest" : "highest"} ${wordsOf(name)}: ${shown(y)}${unitOf(name) === "1/s" ? "/s" : unitOf(name) ? " " + unitOf(name) : ""}${place ? ` at ${place}` : ""}`;
  const seeds = sweep.axes.find((axis) => axis.key === "seed")?.values.length ?? 1, overloaded = results.has("overloaded") ? results.texts("overloaded").filter((cell) => cell === "1" || cell === "true").length : 0;
  const lossy = results.has("failed_requests") ? results.numbers("failed_requests").filter((failed) => failed > 0).length : 0;
  const failed = results.texts("error").filter((cell) => cell !== "").length, counted = (count, words) => count > 0 ? [`${count} of ${results.rows.length} points ${words}`] : [];
  const warning = [...counted(lossy, "lost requests with hardware: their latencies are of the others."), ...counted(overloaded, "are offered more than they serve: their latencies grow with the length of the run."), ...counted(failed, "failed and are not compared.")].join(" ");
  const sure = ["How sure", seeds > 1 ? `${seeds} seeds; charts show the 95 % interval of their mean` : "one seed, so no interval (--vary seed=1,2,3 gives one)"];
  return found ? verdict([found.trim()], [sure], warning) : told.length === 0 ? null : verdict([(keepsUp ? `${kept}; ${text(told[0])}` : sentence(text(told[0]))) + "."], [...told.slice(1).map((one) => ["And", text(one)]), sure], warning);
};

const sweepSections = (root) => {
  const sweep = jsonFile(join(root, "sweep.json")), results = csvFile(join(root, "results.csv"));
  if (!results) { section("Sweep", absent("No results.csv in this folder: the sweep is not finished. Rerun the same command to continue.")); return; }
  seePolicies(sweep.policies);
  for (const axis of sweep.axes) sweptKeys.add(axis.key);
  const lead = leadOf(sweep, results, true);
  const isText = (name) => name === "error" || results.texts(name).some((cell) => cell !== "" && Number.isNaN(Number(cell)));
  const isFigure = (name) => !["point", "error", ...lead].includes(name) && !isText(name) && !define(name)?.index && results.numbers(name).some(Number.isFinite);  // charts draw means
  const figures = results.names.filter(isFigure);
  const pick = (names) => names.find((name) => figures.includes(name)) ?? figures[0];
  const goodput = sweep.measure === "goodput";
  const wanted = goodput ? ["slo_requests_per_s", "slo_limit", "slo_ttft_mean_ms", "slo_tpot_mean_ms", "knee_requests_per_s", "knee_limit", "knee_ttft_mean_ms", "saturation_requests_per_s", "idle_ttft_mean_ms", "kv_tokens_per_rank", "kv_lost_to_copies_share"]
    : ["requests_per_s", "ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms", "balancedness_mean", "straggler_share", "kv_tokens_per_rank", "kv_lost_to_copies_share"];
  const names = ["point", ...lead, ...wanted.filter((name) => results.has(name))];
  const labelOf = (name) => (lead.includes(name) ? shortKey(sweep, name) : undefined), asText = (name) => lead.includes(name) || name.endsWith("_limit");
  const cellOf = (row, name) => { const cell = row[results.names.indexOf(name)]; return asText(name) ? cell : num(cell); };
  const failed = results.rows.filter((_, i) => results.texts("error")[i] !== "");
  const varied = sweep.axes.map((axis) => `${shortKey(sweep, axis.key)} in ${axis.values.join(", ")}`).join("; ");
  const seeds = sweep.axes.find((axis) => axis.key === "seed")?.values;
  const node = section("Results", headOf(root, `sweep of ${sweep.axes.map((axis) => shortKey(sweep, axis.key)).join(" × ")}`, { seeds: seeds ? seeds.join(", ") : "1", version: sweep.epsim_version, varied: sweep.axes, rate: goodput ? "rates searched" : undefined, gpus: results.has("gpus") ? results.numbers("gpus").filter(Number.isFinite) : [] }),
    figures.length > 0 ? sweepVerdict(root, sweep, results, wanted.filter((name) => figures.includes(name)).slice(0, 2)) : null,
    el("p", {}, `${sweep.scenario ? `${sweep.scenario}, ` : ""}${countOf(results.rows.length, "point")}: ${varied}${sweep.policies.length > 0 ? `; policies ${sweep.policies.join(", ")}` : ""}.`),
    table("Points", names.map((name) => ({ name, label: labelOf(name), text: asText(name) })), results.rows.map((row) => names.map((name) => cellOf(row, name))),
      { long: true, names: results.names, all: results.rows, file: "results", note: `The CSV has all ${results.names.length} columns.` }));
  if (failed.length > 0) {
    node.append(table(`${countOf(failed.length, "point")} failed`, ["point", ...lead, "error"].map((name) => ({ name, label: labelOf(name), text: true })),
      failed.map((row) => ["point", ...lead, "error"].map((name) => row[results.names.indexOf(name)])), { long: true }));
  }
  if (figures.length === 0) { section("Figures", absent("No point has a figure.")); return; }
  // Against the number with the most values; where none varies, the first key.
  const numeric = lead.filter((key) => key !== "policy" && key !== "seed" && numbersOf(valuesOf(sweep, key))).sort((a, b) => valuesOf(sweep, b).length - valuesOf(sweep, a).length);
  const x = lead.find((key) => /replication_factor|redundant/.test(key)) ?? numeric[0] ?? lead.find((key) => key !== "seed") ?? lead[0];
  const main = pick(goodput ? ["slo_requests_per_s", "knee_requests_per_s"] : ["requests_per_s"]), latency = pick(["ttft_mean_ms", "slo_ttft_mean_ms", "knee_ttft_mean_ms"]);
  section("Figures against what varies", el("p", {}, "Each chart draws the figure chosen above it."), el("div", { class: "grid" },
    ...[main, latency, pick(["tpot_mean_ms", "saturation_requests_per_s"]), pick(["kv_tokens_per_rank"])].map((figure) => chosenSweepChart(sweep, results, figures, x, figure))));
  const keys = lead.filter((key) => key !== "seed" && valuesOf(sweep, key).length > 1), options = figureOptions(figures);
  const map = (figure) => chosenChart([{ label: "figure", name: "figure of the map", value: figure, options }], ([y]) => sweepMap(sweep, results, keys[1], keys[0], y));
  if (keys.length >= 2) section("Over two keys", el("div", { class: "grid" }, map(main), map(latency)));
  section("One figure against another", chosenChart([{ label: "across", value: pick(["output_tokens_per_s_per_gpu", "kv_tokens_per_rank"]), options }, { label: "up", value: latency, options }], ([a, b]) => paretoChart(sweep, results, a, b)));
  sweepCurves(root, sweep, results);
  section("What it was made from", el("p", {}, `epsim ${sweep.epsim_version}; scenario file ${sweep.scenario_hash}; overrides: ${sweep.overrides.join(", ") || "none"}.`));
};
