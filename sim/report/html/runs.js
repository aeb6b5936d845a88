// Runs and comparisons: one set of charts for however many runs stand side by side.

const parts = () => report.layer_parts;
const origins = () => report.origins;

// Every folder with a summary.json, the best first where a comparison ranks them; variants that split a gain have a table of their own.
const collectRuns = (root, comparison) => {
  const folders = Object.keys(report.files).filter((path) => path === join(root, "summary.json") ||
    (path.startsWith(root === "" ? "" : root + "/") && path.endsWith("/summary.json") && folderOf(folderOf(path)) === root)).map(folderOf);
  const runs = folders.map((folder) => ({
    folder, summary: jsonFile(join(folder, "summary.json")),
    layers: csvFile(join(folder, "layers.csv")), gpus: csvFile(join(folder, "gpus.csv")), links: csvFile(join(folder, "links.csv")),
    layerGpu: csvFile(join(folder, "layer_gpu.csv")), memory: csvFile(join(folder, "memory.csv")),
    layerSteps: csvFile(join(folder, "layer_steps.csv")), resolved: report.files[join(folder, "resolved.yaml")],
    series: csvFile(join(folder, "series.csv")), compared: comparison?.runs?.find((row) => row.policy === lastPart(folder)) ?? null,
  }));
  const order = (comparison?.runs ?? []).map((run) => run.policy);
  const rank = (run) => { const at = order.indexOf(run.summary.policy); return at < 0 ? order.length : at; };
  return runs.filter((run) => !(comparison?.gain_split && run.compared?.variant)).sort((a, b) => rank(a) - rank(b));
};
const label = (run) => run.summary.policy;

// Figures that the results table shows: [section of summary.json, key, label].
const shownFigures = report.key_figures;
// A figure of a run: the mean over seeds where a comparison has several, else that of its one run.
const overSeeds = (run, key) => run.compared?.over_seeds?.[key] ?? null;
const figureOf = (run, [where, key]) => num(overSeeds(run, key)?.mean ?? run.summary[where][key]);
const intervalOf = (run, [, key]) => overSeeds(run, key)?.interval95 ?? null;
// How a run differs from the one compared with, as a share, and half the width of that difference's interval over seeds.
const changeOf = (run, first, figure) => {
  const apart = overSeeds(run, figure[1])?.difference, base = figureOf(first, figure);
  return apart ? { share: num(apart.mean) / base, half: apart.interval95 ? (apart.interval95[1] - apart.interval95[0]) / 2 / base : NaN } : { share: figureOf(run, figure) / base - 1, half: NaN };
};
const changeText = ({ share, half }) => percent(share) + (Number.isFinite(half) ? ` ± ${(100 * half).toFixed(1)}` : "");

// Whether no difference of the first run from the one compared with is surer than chance.
const isEven = (runs, comparison) => {
  const first = runs.find((run) => label(run) === comparison?.compared_with);
  return Boolean(first) && runs[0] !== first && ["requests_per_s", "ttft_mean_ms", "itl_mean_ms"].every((name) => { const { share, half } = changeOf(runs[0], first, shownFigures.find(([, key]) => key === name)); return Math.abs(share) <= half; });
};

// What another run than the first has over it: of rates and latencies (in overload of rates alone) the difference that is
// the largest, if it is told apart. Of several seeds a figure of the first alone tells nothing apart.
const largestGain = (runs, first, overload, seeds) => {
  const figures = shownFigures.filter(([where]) => where === "throughput" || (where === "latency" && !overload));
  const gains = runs.filter((run) => run !== first && !run.compared?.bound).flatMap((run) => figures.map((figure) => ({ run, figure, ...changeOf(run, first, figure) })))
    .map((one) => ({ ...one, size: lowerIsBetter(one.figure[1]) ? -one.share : one.share }));
  return gains.filter(({ size, half }) => (Number.isFinite(half) ? size > half : seeds === 1 && size > 0.0005)).sort((a, b) => b.size - a.size)[0] ?? null;
};

// Of runs that lost requests: figures of those that completed look better than the service was.
const failedText = (runs) => runs.filter((run) => run.summary.requests.failed_requests > 0)
  .map((run) => `${label(run)}: ${shown(run.summary.requests.failed_requests)} of ${shown(run.summary.requests.offered_requests)} requests failed with lost hardware; latencies are of the others.`).join(" ");

// The first run, what it gains over the policy compared with, why, how sure that is, and what it costs.
const verdictOf = (runs, comparison) => {
  const best = runs[0], first = runs.find((run) => label(run) === comparison?.compared_with) ?? best, figure = (name) => shownFigures.find(([, key]) => key === name);
  const value = (run, name) => shown(figureOf(run, figure(name))), change = (name) => changeOf(best, first, figure(name)), lost = num(best.summary.kv.kv_lost_to_copies_share);
  const cost = lost > 0 ? `experts beyond an even share and buffers take ${shown(num(best.summary.kv.kv_copies_gib_per_gpu))} GiB per GPU, ${shown(lost * 100)} % of the KV room: ${best.summary.plan}` : "experts beyond an even share and buffers take no KV room";
  const told = (name, words, unit) => `${words} ${value(best, name)} ${unit} (${changeText(change(name))})`, overload = (comparison?.overload?.text ?? "").replaceAll("`", "");
  const warnings = warned(runs.map((run) => run.summary));
  const warningOf = (text) => [failedText(runs), text].filter((words) => words).join(" ");
  if (runs.length === 1) return verdict([`${label(best)} serves ${value(best, "requests_per_s")} requests/s with a mean TTFT of ${value(best, "ttft_mean_ms")} ms and a mean ITL of ${value(best, "itl_mean_ms")} ms.`],
    [["How sure", surenessOf(runs)], ["Plan", best.summary.plan], ...warnings], warningOf(best.summary.overloaded ? "More is offered than is served: latencies grow with the length of the run." : ""));
  const even = isEven(runs, comparison), figures = `${told("requests_per_s", "", "requests/s").trim()}, ${told("ttft_mean_ms", "mean TTFT", "ms")}, ${told("itl_mean_ms", "mean ITL", "ms")}`;
  const gain = best === first ? largestGain(runs, first, Boolean(overload), seedsOf(comparison)) : null;
  const over = best === first ? (gain ? `${label(best)}, which the others are compared with, comes first; ${label(gain.run)} does better in another figure, ${wordsOf(gain.figure[1])} (${changeText(gain)}).` : `No policy does better than ${label(best)}, which the others are compared with.`) :
    even ? `No sure difference between ${label(best)} and ${label(first)} over ${seedsOf(comparison)} seeds: ${figures}.` : `${label(best)} comes first: ${figures}; differences are from ${label(first)}.`;
  return verdict([over], [["Why", best === first ? (gain ? comparison?.ranking_rule : "") : reasonOf(best, first, seedsOf(comparison ?? {}))], ["Cost", cost], ["How sure", surenessOf(runs, comparison)], ...warnings], warningOf(overload));
};

// The part of a step that falls the most, per completed request, which is known of the first seed alone, and the balance
// behind it, as the key figures have it.
const reasonOf = (best, first, seeds) => {
  const perRequest = (run, part) => (1e3 * num(run.summary.time_by_part[part + "_s"])) / run.summary.requests.completed_requests;
  const gain = (part) => perRequest(first, part) - perRequest(best, part), part = parts().reduce((most, one) => (gain(one) > gain(most) ? one : most));
  const balanceOf = (run) => figureOf(run, ["balancedness", "balancedness_mean"]), balance = `balance ${balanceText(balanceOf(first))} to ${balanceText(balanceOf(best))} (mean / max GPU load)`;
  return gain(part) > 0 ? `${part} take ${shown(perRequest(best, part))} ms of step time per request, ${shown(perRequest(first, part))} with ${label(first)}${seeds > 1 ? ", both under the first seed" : ""}; ${balance}`.replace("experts take", "expert computation takes").replace(/^(\w+) take /, "$1 takes ") : balance;
};
const surenessOf = (runs, comparison) => {
  const share = (origin) => num(runs[0].summary.time_by_origin[origin + "_share"]), sure = share("measured") + share("interpolated"), guessed = share("extrapolated") + share("spec_sheet"), given = share("declared");
  const seeds = seedsOf(comparison ?? {}) > 1 ? `${seedsOf(comparison)} seeds, ± is half the 95 % interval of the paired difference` : runs.length > 1 ? "one seed, so no interval: a difference of a few percent may be chance (--seeds 5 tells)" : "one seed";
  return `${seeds}; ${shown(sure * 100)} % of the step time has prices inside what was measured, ${shown(guessed * 100)} % is extrapolated or from data sheets${given > 0 ? `, ${shown(given * 100)} % is declared by the scenario` : ""}`;
};
const seedsOf = (document) => (Array.isArray(document.seeds) ? document.seeds.length : num(document.seeds ?? 1));
// Of sections that draw single runs.
const firstSeedNote = (comparison) => (seedsOf(comparison ?? {}) > 1 ? "Of the run of the first seed; the key figures above are means over all seeds." : undefined);
const seedsText = (document) => (seedsOf(document) > 1 ? `${seedsOf(document)}${Array.isArray(document.seeds) ? ` (${document.seeds.join(", ")})` : ""}` : `1 (seed ${document.seed})`);

// A figure and, below it, its difference from the run compared with; a share or a balance with its own interval instead.
const resultsTable = (runs, comparison) => {
  const seeds = seedsOf(comparison ?? {}), ofFirstSeed = shownFigures.filter(([, key]) => !overSeeds(runs[0], key)).map(([, , name]) => name);
  const means = seeds > 1 ? `Means over ${seeds} seeds${ofFirstSeed.length > 0 ? `; of the first seed alone: ${ofFirstSeed.join(", ")}` : ""}. ± is half a 95 % interval. ` : "";
  const first = runs.find((run) => label(run) === comparison?.compared_with) ?? runs[0], best = comparison && !isEven(runs, comparison) ? runs[0] : null;
  const columns = [{ name: "policy", text: true, show: (row) => el("span", { class: "policy" }, row[0] === (best && label(best)) ? "★ " : "", swatch(row[0]), row[0]) },
    ...shownFigures.map((figure, i) => ({ name: figure[1], label: figure[2], show: (row) => {
      const run = runs.find((one) => label(one) === row[0]), apart = changeOf(run, first, figure), bare = isShare({ name: figure[1] }) || figure[1] === "balancedness_mean", [low, high] = (bare && intervalOf(run, figure)) || [];
      return el("span", {}, cellText({ name: figure[1] }, row[i + 1]) + (high > low ? ` ± ${((high - low) / 2).toFixed(3)}` : ""), bare || run === first ? null : difference(figure[1], apart.share, apart.half));
    } }))];
  const rows = runs.map((run) => [label(run), ...shownFigures.map((figure) => figureOf(run, figure))]);
  return table("Key figures", columns, rows, { winner: best ? 0 : -1, note: comparison ? `${means}Small print: difference from ${label(first)}. ${comparison.ranking_rule}` : undefined });
};
const swatch = (name) => el("i", { class: "swatch", style: `background:${colour(toneOf(name))}` });

const resultsSection = (root, runs, comparison) => {
  const document = comparison ?? runs[0].summary, what = runs.length > 1 ? runs.map(label).join(", ") : label(runs[0]);
  const node = section("Results", headOf(root, what, { seeds: seedsText(document), version: document.epsim_version }), verdictOf(runs, comparison), resultsTable(runs, comparison));
  if (runs.some((run) => run.summary.interrupted)) node.append(absent("A run was interrupted: its figures cover only the steps that were complete."));
  if (runs.length > 1) {
    const figures = [["requests_per_s", "served requests per second"], ["ttft_mean_ms", "mean TTFT [ms]"], ["itl_mean_ms", "mean ITL [ms]"], ["kv_tokens_per_rank", "KV room per rank [tokens]"]].map(([name, y]) => [shownFigures.find(([, key]) => key === name), y]);
    node.append(el("div", { class: "grid four" }, ...figures.map(([figure, y]) => policyBars(runs, figure, y))));
  }
  if (comparison?.conclusions?.length > 0) node.append(el("details", {}, el("summary", {}, "Every comparison in words"), ...comparison.conclusions.map((text) => el("p", {}, text))));
};

// One bar per policy, in its colour, with its interval over seeds.
const policyBars = (runs, figure, y) => {
  const bar = (run) => { const [low, high] = intervalOf(run, figure) ?? []; return { y: figureOf(run, figure), low, high }; };
  return chart({ type: "bar", stacked: true, small: true, title: sentence(y.replace(/ \[.*/, "")), term: figure[1], x: "policy", y, labels: runs.map(label),
    datasets: runs.map((run) => ({ label: label(run), unlisted: true, data: runs.map((other) => (other === run ? bar(run) : NaN)) })),
    data: { names: ["policy", figure[1], "interval95_low", "interval95_high"], rows: runs.map((run) => [label(run), figureOf(run, figure), ...(intervalOf(run, figure) ?? [NaN, NaN])]) } });
};

const latencySection = (runs, comparison) => {
  const kinds = ["ttft", "itl", "tpot", "e2e", "queue"], marksOf = ["mean", "p50", "p90", "p99", "max"];
  const rows = kinds.flatMap((kind) => runs.map((run) => [kind.toUpperCase(), label(run), ...marksOf.map((m) => num(run.summary.latency[`${kind}_${m}_ms`])), num(run.summary.latency[kind + "_samples"])]));
  const curves = [["ttft_ms", "TTFT"], ["tpot_ms", "TPOT"], ["e2e_ms", "End-to-end latency"]].map(([name, text]) => distribution(runs, name, text)).filter((one) => one !== null);
  section("Latency", curves.length > 0 ? el("div", { class: "grid three" }, ...curves) : absent("No requests.csv in this folder, so there are no distributions."),
    table("Latencies of completed requests, in ms",
      [{ name: "latency", label: "latency", text: true }, { name: "policy", text: true }, ...marksOf.map((m) => ({ name: m + "_ms", label: m, note: m + ", in ms" })), { name: "samples", note: "number of values" }], rows, { note: firstSeedNote(comparison) }));
};

// The share of requests below each latency: report.quantiles[folder][name] holds quantiles at even steps from 0 to 1.
const distribution = (runs, name, text) => {
  const known = runs.filter((run) => report.quantiles[run.folder]?.[name]?.length > 1);
  if (known.length === 0) return null;
  const values = known.flatMap((run) => report.quantiles[run.folder][name]), wide = d3.min(values) > 0 && d3.max(values) / d3.median(values) > 8;
  return lines({ title: `${text}, distribution`, term: name, x: `${text} [ms]`, xName: name, y: "share of requests below", yName: "share", most: 1, zeroX: true, logX: wide, near: true },
    known.map((run) => { const all = report.quantiles[run.folder][name]; return { label: label(run), x: all, y: all.map((_, i) => i / (all.length - 1)), style: { size: 0 } }; }));
};

// A stacked bar per run: what its mean step is made of.
const stackedByRun = (runs, spec, keys, valueOf) => {
  const used = keys.filter((key) => runs.some((run) => valueOf(run, key) > 0));
  const datasets = used.map((key) => ({ label: key.replaceAll("_", " "), item: true, colour: spec.colours?.[keys.indexOf(key)], data: runs.map((run) => valueOf(run, key)) }));
  const rows = runs.flatMap((run) => used.map((key) => [label(run), key, valueOf(run, key)]));
  return chart({ type: "bar", stacked: true, horizontal: true, x: "policy", ...spec, labels: runs.map(label), datasets, data: { names: ["policy", spec.itemName, spec.valueName], rows } });
};

const surenessColours = ["#1a9850", "#a6d96a", "#fdae61", "#d7a5e0", "#f46d43"];  // of prices, from measured to declared
// Step time by part: a chart for each kind of step of each pool; one for all steps where a folder does not split them.
const stepCharts = (runs) => {
  const note = "All layers together. Dispatch and combine are the exchange of tokens; experts is their computation.", named = { term: "time_by_part", y: "time of a step [ms]", itemName: "part", valueName: "time_per_step_ms" };
  const perStep = (seconds, steps) => (steps > 0 ? (seconds / steps) * 1e3 : NaN), rowsOf = (run) => run.summary.step_kinds ?? [];
  const apart = runs.some((run) => rowsOf(run).some((row) => row.pool !== "all")), all = runs.flatMap(rowsOf).filter((row) => row.steps > 0 && (row.pool !== "all") === apart);
  const kinds = [...new Map(all.map((row) => [`${row.pool} ${row.step_kind}`, row])).values()];
  if (kinds.length === 0) return [stackedByRun(runs, { ...named, title: "Mean step by layer part", note }, parts(), (run, part) => perStep(run.summary.time_by_part[part + "_s"], run.summary.step.steps))];
  return kinds.map(({ pool, step_kind }) => {
    const of = (run) => rowsOf(run).find((row) => row.pool === pool && row.step_kind === step_kind);
    const told = runs.map((run) => `${label(run)} ${shown(num(of(run)?.step_time_share) * 100)} %`).join(", ");
    return stackedByRun(runs, { ...named, title: `${sentence(step_kind)} step${apart ? `, ${pool} pool` : ""}`, note: `Mean by layer part. Share of the step time: ${told}.` }, parts(), (run, part) => perStep(num(of(run)?.[part + "_s"]), of(run)?.steps));
  });
};

const timeSection = (runs) => {
  section("Where the time goes", el("p", {}, "Dispatch and combine are the exchange of tokens, all layers together; experts is their computation."), el("div", { class: "grid" }, ...stepCharts(runs),
    stackedByRun(runs, { title: "How the prices are known", term: "time_by_origin", y: "share of the step time", most: 1, itemName: "origin", valueName: "share", colours: surenessColours,
                         note: "Measured and interpolated prices are the surest; spec sheet is a data-sheet rate taken as reached." },
                 origins(), (run, origin) => num(run.summary.time_by_origin[origin + "_share"]))));
};

const layerLines = (runs, spec, column) => lines({ x: "layer", xName: "layer", yName: column, ...spec, y: withUnit(spec.yText, column) },
  runs.filter((run) => run.layers?.has(column)).map((run) => ({ label: label(run), x: run.layers.numbers("layer"), y: run.layers.numbers(column) })));

const stragglerSection = (runs) => {
  if (!runs.some((run) => run.layers)) { section("Stragglers", absent("No layers.csv in this folder, so nothing is attributed.")); return; }
  const grid = el("div", { class: "grid" },
    layerLines(runs, { title: "Time lost to the slowest GPU or busiest link, by layer", term: "straggler_us", yText: "waiting per step" }, "straggler_us"));
  if (runs.some((run) => run.gpus)) {
    grid.append(lines({ title: "Load of each GPU over its instance's mean", term: "load_over_mean", x: "GPU", xName: "gpu", y: "load / mean", yName: "load_over_mean", rules: [{ y: 1, label: "mean" }], note: "All layers and steps. Above 1: the other GPUs of its instance wait for it." },
      runs.filter((run) => run.gpus).map((run) => ({ label: label(run), x: run.gpus.numbers("gpu"), y: run.gpus.numbers("load_over_mean") }))));
  }
  section("Stragglers", el("p", {}, ...runs.flatMap((run, i) => [i > 0 ? " · " : "", label(run) + ": ", term(`${shown(num(run.summary.straggler.straggler_share) * 100)} % of the step time`, "straggler_share")])), grid);
};

// [row label][column label] of a long table; both in the order of their first appearance.
const pivot = (csv, row, column, value) => {
  const rowNames = csv.texts(row), columnNames = csv.texts(column), numbers = csv.numbers(value);
  const rows = [...new Set(rowNames)], columns = [...new Set(columnNames)];
  const r = new Map(rows.map((name, i) => [name, i])), c = new Map(columns.map((name, i) => [name, i]));
  const values = rows.map(() => columns.map(() => NaN));
  numbers.forEach((number, i) => { values[r.get(rowNames[i])][c.get(columnNames[i])] = number; });
  return { rows, columns, values };
};

// [GPU] of a layer, over the mean of those of its instance: GPUs of other instances do not wait for it.
const overMean = (row, instances) => {
  const sums = new Map();
  row.forEach((v, g) => { const [sum, count] = sums.get(instances[g]) ?? [0, 0]; sums.set(instances[g], [sum + v, count + 1]); });
  return row.map((v, g) => { const [sum, count] = sums.get(instances[g]); return sum > 0 ? (v * count) / sum : NaN; });
};

// A figure of layer_gpu.csv over its layer's mean, run by run on one scale; nothing where it is zero everywhere.
const layerGpuMaps = (runs, column, title, about, unit) => {
  const tables = runs.map((run) => pivot(run.layerGpu, "layer", "gpu", column));
  tables.forEach((t, i) => { const instances = runs[i].gpus?.has("instance") ? runs[i].gpus.texts("instance") : []; t.values = t.values.map((row) => overMean(row, instances)); });
  const ranges = tables.map((t) => range(t.values.flat())), known = tables.some((t) => t.values.flat().some(Number.isFinite));
  const low = Math.min(...ranges.map((r) => r[0])), high = Math.max(...ranges.map((r) => r[1]));
  return known ? [el("div", { class: "grid" }, ...runs.map((run, i) => heatmap({ title: `${title} by layer and GPU: ${label(run)}`, term: about, note: "Over the layer's mean in the instance, whole run: white is the mean, red above it, blue below. All maps share one scale.", diverging: true,
    rowName: "layer", columnName: "GPU", valueName: `${unit} / mean of the layer`, rows: tables[i].rows, columns: tables[i].columns, values: tables[i].values, low, high })))] : [];
};

const balanceSection = (runs) => {
  const node = section("Balance");
  if (runs.some((run) => run.layers)) {
    const grid = el("div", { class: "grid" },
      layerLines(runs, { title: "Balancedness by layer", term: "balancedness_mean", yText: "mean / max GPU load", note: "Mean over steps; 1 is perfect." }, "balancedness_mean"));
    if (runs.some((run) => run.layers?.has("extra_copies"))) {
      grid.append(layerLines(runs, { title: "Extra copies by layer", term: "extra_copies", yText: "copies" }, "extra_copies"));
    }
    for (const [column, title] of [["nic_received_balance", "Rows from other nodes"], ["gpu_received_balance", "Rows from inside the node"]]) {
      if (runs.some((run) => run.layers?.has(column) && run.layers.numbers(column).some(Number.isFinite))) grid.append(layerLines(runs, { title: `${title}: balance by layer`, term: "gpu_sent_balance", yText: "mean / max over GPUs", note: "Of what each layer's dispatches bring; 1 is perfect." }, column));
    }
    node.append(grid);
  }
  const maps = runs.filter((run) => run.layerGpu);
  if (maps.length === 0) node.append(absent("No layer_gpu.csv in this folder, so there is no map of layer × GPU."));
  node.append(...layerGpuMaps(maps, "assignments", "Load", "load_over_mean", "load"));
  const exchanged = maps.filter((run) => run.layerGpu.has("rows_received_outside"));
  node.append(...layerGpuMaps(exchanged, "rows_received_outside", "Rows from other nodes", "rows_received_outside", "rows"));
  node.append(...layerGpuMaps(exchanged, "rows_received_inside", "Rows from inside the node", "rows_received_inside", "rows"));
  const steps = runs.filter((run) => run.layerSteps?.rows.length > 0);
  if (steps.length === 0) node.append(absent("No map of layer × step: layer_steps.csv is missing or, as with several instances, empty."));
  const times = steps.map((run) => pivot(run.layerSteps, "layer", "first_step", "balancedness_mean"));
  const low = Math.min(...times.map((t) => range(t.values.flat())[0]));
  node.append(el("div", { class: "grid" }, ...steps.map((run, i) => heatmap({ title: `Balancedness by layer and step: ${label(run)}`, term: "balancedness_mean", note: "Each column is the mean over consecutive steps, from the step named. All maps share one scale.",
    rowName: "layer", columnName: "from step", valueName: "balancedness", rows: times[i].rows, columns: times[i].columns, values: times[i].values, low, high: 1 }))));
};

// Links of one kind together: "gpu3.nvlink.out" is of kind "gpu nvlink out".
const linkSection = (runs) => {
  const having = runs.filter((run) => run.links);
  if (having.length === 0) { section("Links", absent("No links.csv in this folder.")); return; }
  const kindOf = (name) => name.replace(/\d+/g, "").replaceAll(".", " "), column = "utilisation_of_steps_share";
  const most = new Map(having.map((run) => [run, new Map()]));
  for (const run of having) {
    const use = run.links.numbers(column), mine = most.get(run);
    run.links.texts("link").forEach((name, i) => { if (!isNaN(use[i])) mine.set(kindOf(name), Math.max(mine.get(kindOf(name)) ?? 0, use[i])); });
  }
  const highest = (kind) => Math.max(...having.map((run) => most.get(run).get(kind) ?? 0));
  const kinds = [...new Set(having.flatMap((run) => [...most.get(run).keys()]))].sort((a, b) => highest(b) - highest(a));
  const at = having[0].links.names.indexOf(column);
  const rows = having.flatMap((run) => run.links.rows.map((row) => [label(run), ...row.map((cell, i) => (run.links.names[i] === "link" ? cell : num(cell)))])).sort((a, b) => (b[at + 1] || 0) - (a[at + 1] || 0));
  section("Links",
    chart({ type: "bar", horizontal: true, title: "Use of the busiest link of each kind", term: column, x: "link", y: "share of its rate while steps run", labels: kinds,
            datasets: having.map((run) => ({ label: label(run), data: kinds.map((kind) => most.get(run).get(kind) ?? NaN) })),
            data: { names: ["policy", "link_kind", column], rows: having.flatMap((run) => kinds.map((kind) => [label(run), kind, most.get(run).get(kind)])) } }),
    table("All links, the busiest first", [{ name: "policy", text: true }, ...having[0].links.names.map((name) => ({ name, text: name === "link" }))], rows, { long: true }));
};

const memorySection = (runs) => {
  // Items that take memory anywhere, each with one colour in all charts.
  const itemsOf = (run) => [...run.summary.memory, ...(run.summary.prefill_memory ?? []), ...(run.memory?.rows.map(([, item, gib]) => ({ memory_item: item, memory_gib: num(gib) })) ?? [])];
  const everything = runs.flatMap(itemsOf), used = new Set(everything.filter((one) => one.memory_gib > 0).map((one) => one.memory_item));
  const items = [...new Set(everything.map((one) => one.memory_item))].filter((item) => used.has(item));
  const accounts = (title, term) => stackedByRun(runs, { title, term, y: "GiB", itemName: "memory_item", valueName: "memory_gib" }, items,
    (run, item) => num(run.summary[term]?.find((one) => one.memory_item === item)?.memory_gib ?? 0));
  const apart = runs.some((run) => run.summary.prefill_memory);
  const where = apart ? " of a decode instance" : "";
  const node = section("Memory and KV cache", accounts(`Memory of the fullest GPU${where}`, "memory"),
    ...(apart ? [accounts("Memory of the fullest GPU of a prefill instance", "prefill_memory")] : []));
  const having = runs.filter((run) => run.memory);
  if (having.length === 0) node.append(absent("No memory.csv in this folder, so memory is not shown for each GPU."));
  else node.append(chosenChart([{ label: "policy", name: "policy of the memory of every GPU", value: "0", options: having.map((run, i) => [String(i), label(run)]) }], ([i]) => {
    const run = having[Number(i)], t = pivot(run.memory, "memory_item", "gpu", "memory_gib");
    return chart({ type: "bar", stacked: true, title: `Memory of every GPU${where}: ${label(run)}`, term: "memory_gib", x: "GPU", y: "GiB", labels: t.columns,
      datasets: items.filter((item) => t.rows.includes(item)).map((item) => ({ label: item, item: true, data: t.values[t.rows.indexOf(item)] })),
      data: { names: ["memory_item", "gpu", "memory_gib"], rows: t.rows.flatMap((item, i) => t.columns.map((gpu, j) => [item, gpu, t.values[i][j]])) } });
  }));
};

const inputsSection = (documents) => {
  const node = section("What it was made from");
  const first = documents[0];
  node.append(el("p", {}, `Scenario ${first.document.scenario}, seed ${first.document.seed}, epsim ${first.document.epsim_version}.`));
  node.append(first.document.inputs.length === 0 ? absent("The scenario names no other file.") :
    table("Files read", [{ name: "file_name", text: true }, { name: "size_bytes" }, { name: "content_hash", text: true }],
      first.document.inputs.map((file) => [file.file_name, file.size_bytes, file.content_hash])));
  for (const { name, resolved } of documents) {
    if (resolved !== undefined) node.append(el("details", {}, el("summary", {}, `The scenario with every default filled in: ${name}`), el("pre", { tabindex: "0" }, resolved)));
  }
};

const runSections = (root) => {
  const comparison = jsonFile(join(root, "comparison.json")), runs = collectRuns(root, comparison);
  seePolicies(runs.map(label));
  resultsSection(root, runs, comparison);
  const split = gainSplitTable(comparison?.gain_split);
  if (split) section("Whose gain it is", split);
  if (firstSeedNote(comparison)) main.append(el("p", {}, "All sections below show the runs of the first seed."));
  overTimeSection(runs);
  latencySection(runs, comparison);
  timeSection(runs);
  stragglerSection(runs);
  balanceSection(runs);
  linkSection(runs);
  memorySection(runs);
  inputsSection(runs.map((run) => ({ name: label(run), document: run.summary, resolved: run.resolved })));
};
