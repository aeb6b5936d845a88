// Runs and comparisons: one set of charts for however many runs stand side by side.

const parts = () => report.layer_parts;
const origins = () => report.origins;

// Every folder with a summary.json, the best first where a comparison ranks them.
const collectRuns = (root) => {
  const folders = Object.keys(report.files).filter((path) => path === join(root, "summary.json") ||
    (path.startsWith(root === "" ? "" : root + "/") && path.endsWith("/summary.json") && folderOf(folderOf(path)) === root)).map(folderOf);
  const runs = folders.map((folder) => ({
    folder, summary: jsonFile(join(folder, "summary.json")),
    layers: csvFile(join(folder, "layers.csv")), gpus: csvFile(join(folder, "gpus.csv")), links: csvFile(join(folder, "links.csv")),
    layerGpu: csvFile(join(folder, "layer_gpu.csv")), memory: csvFile(join(folder, "memory.csv")),
    layerSteps: csvFile(join(folder, "layer_steps.csv")), resolved: report.files[join(folder, "resolved.yaml")],
  }));
  const order = (jsonFile(join(root, "comparison.json"))?.runs ?? []).map((run) => run.policy);
  const rank = (run) => { const at = order.indexOf(run.summary.policy); return at < 0 ? order.length : at; };
  return runs.sort((a, b) => rank(a) - rank(b));
};
const label = (run) => run.summary.policy;

// Figures that the results table shows: [section of summary.json, key, label].
const shownFigures = [
  ["throughput", "requests_per_s", "Requests"], ["throughput", "output_tokens_per_s_per_gpu", "Output tokens per GPU"],
  ["latency", "ttft_mean_ms", "TTFT mean"], ["latency", "ttft_p99_ms", "TTFT p99"], ["latency", "itl_mean_ms", "ITL mean"],
  ["latency", "itl_p99_ms", "ITL p99"], ["latency", "e2e_mean_ms", "End to end mean"], ["balancedness", "balancedness_mean", "Balancedness"],
  ["straggler", "straggler_share", "Straggler"], ["kv", "kv_tokens_per_rank", "KV per rank"],
  ["kv", "kv_lost_to_copies_share", "KV lost to copies"], ["kv", "kv_peak_use_share", "KV peak use"],
];
const figureOf = (run, [where, key]) => num(run.summary[where][key]);

const resultsSection = (runs, comparison) => {
  const columns = [{ name: "policy", text: true }, ...shownFigures.map(([, name, text]) => ({ name, label: text })), { name: "plan", text: true }];
  const rows = runs.map((run) => [label(run), ...shownFigures.map((figure) => figureOf(run, figure)), run.summary.plan]);
  const node = section("Results");
  if (runs.length === 1) {
    node.append(el("div", { class: "tiles" }, ...shownFigures.map((figure) => el("div", { class: "tile" },
      el("b", {}, cellText({ name: figure[1] }, figureOf(runs[0], figure)), el("span", {}, isShare({ name: figure[1] }) ? " %" : " " + unitOf(figure[1]))), term(figure[2], figure[1])))));
  }
  node.append(table("Key figures", columns, rows, { note: comparison?.ranking_rule }));
  for (const text of comparison?.conclusions ?? []) node.append(el("p", {}, text));
  if (runs.some((run) => run.summary.interrupted)) node.append(absent("A run was interrupted: its figures cover only the steps that were complete."));
};

const latencySection = (runs) => {
  const kinds = ["ttft", "itl", "tpot", "e2e", "queue"], marksOf = ["mean", "p50", "p90", "p99", "max"];
  const rows = runs.flatMap((run) => kinds.map((kind) => [label(run), kind.toUpperCase(), ...marksOf.map((m) => num(run.summary.latency[`${kind}_${m}_ms`])), num(run.summary.latency[kind + "_samples"])]));
  section("Latency", table("Latencies of completed requests, in ms",
    [{ name: "policy", text: true }, { name: "latency", label: "latency", text: true }, ...marksOf.map((m) => ({ name: m + "_ms", label: m, note: m + ", in ms" })), { name: "samples", note: "number of values" }], rows));
};

// A stacked bar per run: what its mean step is made of.
const stackedByRun = (runs, spec, keys, valueOf) => {
  const used = keys.filter((key) => runs.some((run) => valueOf(run, key) > 0));
  const datasets = used.map((key) => ({ label: key.replaceAll("_", " "), data: runs.map((run) => valueOf(run, key)), tone: keys.indexOf(key) }));
  const rows = runs.flatMap((run) => used.map((key) => [label(run), key, valueOf(run, key)]));
  return chart({ type: "bar", stacked: true, horizontal: true, x: "policy", ...spec, labels: runs.map(label), datasets, data: { names: ["policy", spec.itemName, spec.valueName], rows } });
};

const timeSection = (runs) => {
  const perStep = (run, seconds) => (run.summary.step.steps > 0 ? (seconds / run.summary.step.steps) * 1e3 : NaN);
  section("Where the time goes", el("div", { class: "grid" },
    stackedByRun(runs, { title: "Mean step by layer part", term: "time_by_part", y: "time of a step [ms]", itemName: "part", valueName: "time_per_step_ms",
                         note: "All layers together. Dispatch and combine are the exchange of tokens; experts is their computation." },
                 parts(), (run, part) => perStep(run, run.summary.time_by_part[part + "_s"])),
    stackedByRun(runs, { title: "How the prices are known", term: "time_by_origin", y: "share of the step time", most: 1, itemName: "origin", valueName: "share",
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
    grid.append(lines({ title: "Load of each GPU over the mean", term: "load_over_mean", x: "GPU", xName: "gpu", y: "load / mean", yName: "load_over_mean", note: "All layers and steps. Above 1: the other GPUs of its instance wait for it." },
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

const balanceSection = (runs) => {
  const node = section("Balance");
  if (runs.some((run) => run.layers)) {
    const grid = el("div", { class: "grid" },
      layerLines(runs, { title: "Balancedness by layer", term: "balancedness_mean", yText: "mean / max GPU load", note: "Mean over steps; 1 is perfect." }, "balancedness_mean"));
    if (runs.some((run) => run.layers?.has("extra_copies"))) {
      grid.append(layerLines(runs, { title: "Extra copies by layer", term: "extra_copies", yText: "copies" }, "extra_copies"));
    }
    node.append(grid);
  }
  const maps = runs.filter((run) => run.layerGpu);
  if (maps.length === 0) node.append(absent("No layer_gpu.csv in this folder, so there is no map of layer × GPU."));
  const tables = maps.map((run) => pivot(run.layerGpu, "layer", "gpu", "assignments"));
  for (const t of tables) t.values = t.values.map((row) => { const mean = row.reduce((a, b) => a + b, 0) / row.length; return row.map((v) => (mean > 0 ? v / mean : NaN)); });
  const ranges = tables.map((t) => range(t.values.flat()));
  const least = Math.min(...ranges.map((r) => r[0])), most = Math.max(...ranges.map((r) => r[1]));
  node.append(el("div", { class: "grid" }, ...maps.map((run, i) => heatmap({ title: `Load by layer and GPU: ${label(run)}`, term: "load_over_mean", note: "Over the layer's mean, whole run. All maps share one scale.",
    rowName: "layer", columnName: "GPU", valueName: "load / mean of the layer", rows: tables[i].rows, columns: tables[i].columns, values: tables[i].values, low: least, high: most }))));
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
  const kindOf = (name) => name.replace(/\d+/g, "").replaceAll(".", " ");
  const kinds = [...new Set(having.flatMap((run) => run.links.texts("link").map(kindOf)))];
  const column = "utilisation_of_steps_share";
  const most = (run, kind) => Math.max(...run.links.texts("link").map((name, i) => (kindOf(name) === kind ? run.links.numbers(column)[i] : 0)));
  const rows = having.flatMap((run) => run.links.rows.map((row) => [label(run), ...row.map((cell, i) => (run.links.names[i] === "link" ? cell : num(cell)))]));
  section("Links",
    chart({ type: "bar", title: "Use of the busiest link of each kind", term: column, x: "link", y: withUnit("bytes / (rate × step time)", column), labels: kinds,
            datasets: having.map((run) => ({ label: label(run), data: kinds.map((kind) => most(run, kind)) })),
            data: { names: ["policy", "link_kind", column], rows: having.flatMap((run) => kinds.map((kind) => [label(run), kind, most(run, kind)])) } }),
    table("All links", [{ name: "policy", text: true }, ...having[0].links.names.map((name) => ({ name, text: name === "link" }))], rows, { long: true }));
};

const memorySection = (runs) => {
  // Items that take memory anywhere, each with one colour in all charts.
  const itemsOf = (run) => [...run.summary.memory, ...(run.memory?.rows.map(([, item, gib]) => ({ memory_item: item, memory_gib: num(gib) })) ?? [])];
  const everything = runs.flatMap(itemsOf), used = new Set(everything.filter((one) => one.memory_gib > 0).map((one) => one.memory_item));
  const items = [...new Set(everything.map((one) => one.memory_item))].filter((item) => used.has(item));
  const amount = (run, item) => num(run.summary.memory.find((one) => one.memory_item === item)?.memory_gib ?? 0);
  const node = section("Memory and KV cache",
    stackedByRun(runs, { title: "Memory of the fullest GPU", term: "memory", y: "GiB", itemName: "memory_item", valueName: "memory_gib" }, items, amount));
  const having = runs.filter((run) => run.memory);
  if (having.length === 0) node.append(absent("No memory.csv in this folder, so memory is not shown for each GPU."));
  node.append(el("div", { class: "grid" }, ...having.map((run) => {
    const t = pivot(run.memory, "memory_item", "gpu", "memory_gib");
    return chart({ type: "bar", stacked: true, title: `Memory of every GPU: ${label(run)}`, term: "memory_gib", x: "GPU", y: "GiB", labels: t.columns,
      datasets: items.filter((item) => t.rows.includes(item)).map((item) => ({ label: item, data: t.values[t.rows.indexOf(item)], tone: items.indexOf(item) })),
      data: { names: ["memory_item", "gpu", "memory_gib"], rows: t.rows.flatMap((item, i) => t.columns.map((gpu, j) => [item, gpu, t.values[i][j]])) } });
  })));
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
  const runs = collectRuns(root), comparison = jsonFile(join(root, "comparison.json"));
  seePolicies(runs.map(label));
  resultsSection(runs, comparison);
  timeSection(runs);
  stragglerSection(runs);
  balanceSection(runs);
  linkSection(runs);
  memorySection(runs);
  latencySection(runs);
  inputsSection(runs.map((run) => ({ name: label(run), document: run.summary, resolved: run.resolved })));
};
