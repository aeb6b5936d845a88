// A sweep: any figure against any key that varied, one line for each combination of the others.

const leadOf = (sweep, results) => [...sweep.axes.map((axis) => axis.key), ...(results.has("policy") && sweep.policies.length > 0 ? ["policy"] : [])];

// "cluster.nodes" is "nodes", and "craft.replication_factor" "replication factor", where no other key ends like it.
const shortKey = (sweep, key) => {
  const last = (name) => name.slice(name.lastIndexOf(".") + 1);
  return sweep.axes.filter((axis) => last(axis.key) === last(key)).length > 1 ? key : last(key).replaceAll("_", " ");
};
// Which point a row is, in words, by the keys given.
const nameOf = (sweep, results, i, keys) => keys.map((key) => (key === "policy" ? results.texts(key)[i] : `${shortKey(sweep, key)} ${results.texts(key)[i]}`)).join(", ");

// "8/s" is 8; null unless every value begins with a number and no two are alike.
const numbersOf = (values) => {
  const out = values.map((value) => parseFloat(value));
  return out.every(Number.isFinite) && new Set(out).size === values.length ? out : null;
};

const meanOf = (values) => { const known = values.filter((v) => !Number.isNaN(v)); return known.length ? known.reduce((a, b) => a + b, 0) / known.length : NaN; };

// One figure against one key. Seeds are averaged, unless they are what is drawn against.
const sweepChart = (sweep, results, x, y) => {
  const lead = leadOf(sweep, results);
  const values = x === "policy" ? sweep.policies : sweep.axes.find((axis) => axis.key === x).values;
  const numbers = x === "policy" ? null : numbersOf(values);
  const others = lead.filter((key) => key !== x && !(key === "seed"));
  const seeds = x === "seed" ? 1 : sweep.axes.find((axis) => axis.key === "seed")?.values.length ?? 1;
  const names = results.rows.map((_, i) => nameOf(sweep, results, i, others) || "all"), at = results.texts(x), figures = results.numbers(y);
  const keys = [...new Set(names)];
  const series = keys.map((key, i) => ({ label: key, tone: toneOf(key, i), y: values.map((value) => meanOf(figures.filter((_, i) => names[i] === key && at[i] === value))) }))
    .filter((one) => one.y.some(Number.isFinite));  // points that failed have no line
  const order = numbers ? [...numbers.keys()].sort((a, b) => numbers[a] - numbers[b]) : [...values.keys()];
  return { type: "line", category: !numbers, title: `${sentence(wordsOf(y))} against ${shortKey(sweep, x)}`, term: y, note: seeds > 1 ? `Mean over ${seeds} seeds.` : undefined, x: shortKey(sweep, x), y: withUnit(wordsOf(y), y),
    labels: numbers ? undefined : values,
    datasets: series.map((one) => ({ label: one.label, tone: one.tone, data: order.map((i) => (numbers ? { x: numbers[i], y: one.y[i] } : one.y[i])) })),
    data: { names: ["series", x, y], rows: series.flatMap((one) => order.map((i) => [one.label, values[i], one.y[i]])) } };
};

const chosenSweepChart = (sweep, results, figures, x, y) => chosenChart([
  { label: "against", value: x, options: leadOf(sweep, results).map((key) => [key, shortKey(sweep, key)]) },
  { label: "figure", value: y, options: figures.map((name) => [name, wordsOf(name)]) },
], ([against, figure]) => sweepChart(sweep, results, against, figure));

const sweepCurves = (root, sweep, results) => {
  const curve = csvFile(join(root, "curve.csv"));
  if (!curve) return;
  const most = 24, lead = leadOf(sweep, results);
  const labels = new Map(results.texts("point").map((point, i) => [point, nameOf(sweep, results, i, lead)]));
  const points = [...new Set(curve.texts("point"))].slice(0, most);
  const kept = curve.where("point", (point) => points.includes(point));
  const mine = kept.texts("point");
  const knees = results.rows.map((_, i) => i).filter((i) => points.includes(results.texts("point")[i]))
    .map((i) => ({ label: labels.get(results.texts("point")[i]), x: results.numbers("knee_requests_per_s")[i], y: results.numbers("knee_ttft_mean_ms")[i] }));
  const node = section("Throughput and TTFT", curveChart(kept, knees, { title: "TTFT against offered load, by point", note: "Stars are knees; crosses are rates at which the run was not steady.",
    seriesOf: (i) => labels.get(mine[i]), groupOf: (key) => key }));
  if (points.length < new Set(curve.texts("point")).size) node.append(absent(`Only the first ${most} points are drawn; curve.csv has all of them.`));
};

const sweepSections = (root) => {
  const sweep = jsonFile(join(root, "sweep.json")), results = csvFile(join(root, "results.csv"));
  if (!results) { section("Sweep", absent("No results.csv in this folder: the sweep is not finished. The same command goes on where it stopped.")); return; }
  seePolicies(sweep.policies);
  for (const axis of sweep.axes) sweptKeys.add(axis.key);
  const lead = leadOf(sweep, results);
  const isText = (name) => name === "error" || results.texts(name).some((cell) => cell !== "" && Number.isNaN(Number(cell)));
  const figures = results.names.filter((name) => !["point", "error", ...lead].includes(name) && !isText(name));
  const pick = (names) => names.find((name) => figures.includes(name)) ?? figures[0];
  const goodput = sweep.measure === "goodput";
  const shownNames = goodput ? ["knee_requests_per_s", "knee_limit", "knee_ttft_mean_ms", "saturation_requests_per_s", "idle_ttft_mean_ms", "kv_tokens_per_rank", "kv_lost_to_copies_share"]
    : ["requests_per_s", "ttft_mean_ms", "ttft_p99_ms", "itl_mean_ms", "balancedness_mean", "straggler_share", "kv_tokens_per_rank", "kv_lost_to_copies_share"];
  const names = ["point", ...lead, ...shownNames.filter((name) => results.has(name))];
  const labelOf = (name) => (lead.includes(name) ? shortKey(sweep, name) : undefined);
  const columns = names.map((name) => ({ name, label: labelOf(name), text: lead.includes(name) || name === "knee_limit" }));
  const rows = results.rows.map((row) => names.map((name) => (lead.includes(name) || name === "knee_limit" ? row[results.names.indexOf(name)] : num(row[results.names.indexOf(name)]))));
  const failed = results.rows.filter((_, i) => results.texts("error")[i] !== "");
  const node = section("Results", el("p", {}, `${sweep.scenario ? `${sweep.scenario}, ` : ""}${results.rows.length} points: ` + sweep.axes.map((axis) => `${axis.key} in ${axis.values.join(", ")}`).join("; ") +
    (sweep.policies.length > 0 ? `; policies ${sweep.policies.join(", ")}` : "") + "."),
    table("Points", columns, rows, { long: true, names: results.names, all: results.rows, file: "results", note: `The CSV has all ${results.names.length} columns.` }));
  if (failed.length > 0) {
    node.append(table(`${failed.length} points failed`, ["point", ...lead, "error"].map((name) => ({ name, label: labelOf(name), text: true })),
      failed.map((row) => ["point", ...lead, "error"].map((name) => row[results.names.indexOf(name)])), { long: true }));
  }
  if (figures.length === 0) { section("Figures", absent("No point has a figure.")); return; }
  const x = lead.find((key) => /replication_factor|redundant/.test(key)) ?? lead[0];
  section("Figures against what varies", el("p", {}, "Each chart draws the figure chosen above it."), el("div", { class: "grid" },
    chosenSweepChart(sweep, results, figures, x, pick(goodput ? ["knee_requests_per_s"] : ["requests_per_s"])),
    chosenSweepChart(sweep, results, figures, x, pick(["kv_tokens_per_rank"])),
    chosenSweepChart(sweep, results, figures, x, pick(["ttft_mean_ms", "knee_ttft_mean_ms"])),
    chosenSweepChart(sweep, results, figures, x, pick(["balancedness_mean", "saturation_requests_per_s"]))));
  sweepCurves(root, sweep, results);
  section("What it was made from", el("p", {}, `epsim ${sweep.epsim_version}; scenario file ${sweep.scenario_hash}; overrides: ${sweep.overrides.join(", ") || "none"}.`));
};
