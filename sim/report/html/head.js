// The first screen: what was simulated, the verdict, and how sure it is.

// The scenario of a folder, or of the nearest one below it that has one.
const scenarioOf = (root) => report.scenarios[root] ?? report.scenarios[Object.keys(report.scenarios).find((folder) => root === "" || folder.startsWith(root + "/"))] ?? null;
const lastPart = (path) => String(path).split("/").filter((part) => part !== "" && part !== "config.json").at(-1);
const percent = (share, digits = 1) => {
  const text = Math.abs(share * 100).toFixed(digits);
  return `${Number(text) === 0 ? "" : share > 0 ? "+" : "−"}${text} %`;
};

const engineName = (key) => String(key ?? "").replace(/^sglang_/, "SGLang ").replace(/^vllm_/, "vLLM ").replace(/^trtllm_/, "TensorRT-LLM ").replaceAll("_", ".");
const modelName = (scenario) => lastPart(scenario.model?.architecture ?? scenario.model?.config ?? scenario.model?.path ?? "model");
// Of all instances; `whole`: no node has GPUs that are not used.
const gpusOf = ({ cluster = {}, deployment = {} }) => {
  const hardware = report.hardware[cluster.node], apart = [deployment.prefill, deployment.decode].filter((pool) => pool), pools = apart.length > 0 ? apart : [deployment];
  const nodesOf = (pool) => num(pool.instances ?? 1) * num(pool.nodes ?? cluster.nodes), usedOf = (pool) => num(pool.gpus_per_node ?? cluster.gpus_per_node ?? hardware?.gpus);
  return { nodes: d3.sum(pools, nodesOf), node: lastPart(cluster.node ?? ""), gpu: hardware?.gpu, count: d3.sum(pools, (pool) => nodesOf(pool) * usedOf(pool)), whole: pools.every((pool) => usedOf(pool) === hardware?.gpus) };
};
const clusterText = (scenario) => {
  const { nodes, node, gpu, count, whole } = gpusOf(scenario);
  return gpu ? `${shown(count)} × ${gpu} (${nodes} × ${node}${whole ? "" : ", in part"})` : `${nodes} × ${node}`;
};
// Of a sweep over hardware: the range of its points, where results.csv has their GPUs, and the kind of GPU, where all have one.
const sweptClusterText = (scenario, varies, gpus) => {
  const [least, most] = d3.extent(gpus), kind = varies(/^cluster(\.node)?(=|$)/) ? null : gpusOf(scenario).gpu;
  return least === undefined ? kind ?? "several clusters" : kind ? `${least === most ? least : `${least} to ${most}`} × ${kind}` : least === most ? countOf(least, "GPU") : `${least} to ${most} GPUs`;
};
const deploymentText = (scenario) => {
  const d = scenario.deployment ?? {}, p = scenario.parallelism ?? {};
  const pool = (name, one) => `${one.instances ?? 1} ${name} of ${countOf(num(one.nodes ?? scenario.cluster.nodes), "node")}`;
  const sizes = [p.attention_tp ? `attention TP ${p.attention_tp}` : "", p.ep_size ? `EP ${p.ep_size}` : "experts over all GPUs", scenario.dispatch?.transport ?? ""].filter((text) => text !== "");
  const shape = typeof d === "string" ? d : d.prefill ? `${pool("prefill", d.prefill)} + ${pool("decode", d.decode ?? {})}` : countOf(num(d.instances ?? 1), "instance");
  return [shape, ...sizes].join(", ");
};
const requestsText = (scenario, rate) => {
  const r = scenario.requests ?? {}, size = (value) => (typeof value === "object" && value !== null ? "varied" : value);
  const lengths = r.input_tokens !== undefined && r.output_tokens !== undefined ? `${size(r.input_tokens)} in, ${size(r.output_tokens)} out` : "";
  return [r.path ? lastPart(r.path) : r.kind, rate ?? (r.rate ? `at ${r.rate}` : r.concurrency ? `${r.concurrency} at a time` : ""), r.count && (!rate || r.path) ? countOf(num(r.count), "request") : "", lengths].filter((text) => text).join(", ");
};

// Title and facts. `rate`: instead of the scenario's, of a search, which makes as many requests as it needs; `seeds`: in
// words; `varied`: axes of a sweep, whose values are told; `gpus`: of its points.
const headOf = (root, what, { rate, seeds, version, varied = [], gpus = [] }) => {
  const scenario = structuredClone(scenarioOf(root)), set = varied.flatMap(({ key, settings }) => settings?.flat() ?? [key]), varies = (keys) => set.some((key) => keys.test(key));
  const hardware = scenario && varies(/^(cluster|deployment)\b/) ? sweptClusterText(scenario, varies, gpus) : scenario && clusterText(scenario);
  if (scenario?.dispatch && varies(/^(cluster|deployment|serving)\b/)) delete scenario.dispatch.transport;  // the first point's, if it is the default
  for (const { key, values } of scenario ? varied : []) {
    const names = key.split("."), place = names.slice(0, -1).reduce((node, name) => node?.[name], scenario);
    if (place && typeof place === "object") place[names.at(-1)] = values.join(", ");
  }
  if (!scenario) { setTitle(`${what}: ${report.title}`); return absent("No resolved.yaml in this folder, so what was simulated is not told."); }
  setTitle(`${modelName(scenario)} on ${hardware}: ${what}`);
  const facts = [["Model", [modelName(scenario), scenario.model?.dtype].filter((text) => text).join(", ")], ["GPUs", hardware], ["Engine", engineName(scenario.serving?.engine)],
    ["Deployment", deploymentText(scenario)], ["Requests", requestsText(scenario, rate)], ["Seeds", seeds], ["Scenario", `${scenario.name ?? report.title}, epsim ${version}`]];
  return el("dl", { class: "facts" }, ...facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(text)))));
};
// The first output of a folder names the page.
let titled = false;
const setTitle = (text) => {
  if (titled) return;
  titled = true;
  document.querySelector("h1").textContent = text;
  document.title = `${text} · epsim`;
};

// The answer: one sentence in bold, then why, how sure, and what it costs, each a line: [[label, text]]. A warning stands first.
const verdict = (sentences, reasons, warning = "") => el("div", { class: "finding" }, warning ? el("p", { class: "warning" }, warning) : null, ...sentences.map((text) => el("p", { class: "answer" }, text)),
  ...(reasons.length > 0 ? [el("dl", {}, ...reasons.filter(([, text]) => text).map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))))] : []));

// What runs warned of, each once, as reasons of a verdict.
const warned = (documents) => [...new Set(documents.flatMap((one) => one.warnings ?? []))].map((text) => ["Warning", text.replaceAll("`", "")]);

// The metric table says which way a figure is better; one that is named after a metric (knee_ttft_mean_ms) is as that is.
const metricNames = Object.keys(report.definitions).filter((name) => report.definitions[name].better !== undefined);
const metricOf = (name) => (define(name)?.better !== undefined ? name : metricNames.find((one) => name.endsWith("_" + one)));
const lowerIsBetter = (name) => define(metricOf(name))?.better === "lower";
// A difference in words with the class that says whether it is for the better.
const difference = (name, share, halfWidth) => {
  if (!Number.isFinite(share)) return null;
  const even = Number.isFinite(halfWidth) ? Math.abs(share) <= halfWidth : Math.abs(share) < 0.0005;
  return el("span", { class: "change " + (even ? "even" : share < 0 === lowerIsBetter(name) ? "good" : "bad") }, percent(share) + (Number.isFinite(halfWidth) ? ` ± ${(halfWidth * 100).toFixed(1)}` : ""));
};
