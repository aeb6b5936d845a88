// Capacity: what to rent, what it costs by source, and every design that was asked.

const capacityTable = (title, rows, wanted, options = {}) => {
  const names = wanted.filter((name) => rows.some((row) => row[name] !== null && row[name] !== undefined));
  const isText = (name) => rows.some((row) => typeof row[name] === "string");
  return table(title, names.map((name) => ({ name, text: isText(name) })), rows.map((row) => names.map((name) => row[name] ?? "")),
    { ...options, names: Object.keys(rows[0]), all: rows.map((row) => Object.values(row)) });
};

const sizeOf = (nodes) => nodes < 1 ? `1/${Math.round(1 / nodes)} node` : countOf(nodes, "node");

// One figure against another, a mark a design that was run, a colour a kind of node; hollow where the SLO does not hold.
const capacityPareto = (rows, x, y, title, note, about) => {
  const all = rows.filter((row) => Number.isFinite(num(row[x])) && Number.isFinite(num(row[y])) && num(row[x]) > 0);
  if (all.length === 0) return null;
  const mark = (row) => ({ x: num(row[x]), y: num(row[y]), about: about(row), size: row.holds === 0 ? 4 : 7, hollow: row.holds === 0 });
  const nodes = [...new Set(all.map((row) => row.node))];
  return chosenChart([{ label: "node", value: "all", options: ["all", ...nodes].map((node) => [node, node]) }], ([chosen]) => {
    const shown = all.filter((row) => chosen === "all" || row.node === chosen);
    return chart({ type: "line", near: true, tall: true, title, note, term: y, x: withUnit(wordsOf(x), x), y: withUnit(wordsOf(y), y),
      datasets: nodes.map((node) => ({ label: node, line: false, data: shown.filter((row) => row.node === node).map(mark) })),
      data: { names: ["node", x, y, "holds"], rows: shown.map((row) => [row.node, row[x], row[y], row.holds ?? 1]) } });
  });
};

const capacityBars = (title, note, labels, name, values) => chart({ type: "bar", horizontal: true, title, note, x: "", y: withUnit(wordsOf(name), name), labels,
  datasets: [{ label: wordsOf(name), data: values }], data: { names: ["what", name], rows: labels.map((label, i) => [label, values[i]]) } });

// A name for each deployment, none twice: a bar of a chart stands at its name.
const deploymentNames = (rows) => rows.map((row) => row.node + (/^\d+ prefill /.test(row.pools) ? ", P/D" : "")).map((name, i, all) => (all.indexOf(name) < i ? `${name} (${i + 1})` : name));

// What the recommended deployment does in other conditions; as demand grows, against the bounds of the SLO.
const capacityWhatIfs = (plan) => {
  const grown = plan.what_ifs.filter((row) => row.growth_share > 0).map((row) => ({ ...row, about: row.what_if }));
  const curve = (name, metric) => {
    const bound = plan.demand_slo.match(new RegExp(`${metric}\\.p99<([\\d.e+-]+)(us|ms|s)`)), ms = bound && Number(bound[1]) * { us: 1e-3, ms: 1, s: 1e3 }[bound[2]];
    const points = [{ ...plan.deployments[0], growth_share: 0, holds: 1, about: "the demand" }, ...grown].filter((row) => row[name] !== null);
    return chart({ type: "line", tall: true, title: `${wordsOf(name)} as demand grows`, note: `Hollow: the SLO does not hold.${plan.deployments[0].run_as_a_whole === 1 ? " At 0: all instances behind their router." : ""}`, term: name, x: withUnit("growth of the demand", "growth_share"), y: withUnit(wordsOf(name), name),
      datasets: [{ label: wordsOf(name), data: points.map((row) => ({ x: row.growth_share, y: row[name], about: row.about, hollow: row.holds === 0 })) }],
      rules: bound ? [{ y: ms, label: `SLO: ${bound[0]}` }] : [], data: { names: ["growth_share", name, "holds"], rows: points.map((row) => [row.growth_share, row[name], row.holds]) } });
  };
  return [el("p", {}, "One instance of the recommended deployment at its share of the demand; prefill and decode instances in their ratio."), capacityTable("What if", plan.what_ifs, ["what_if", "ttft_p99_ms", "tpot_p99_ms", "verdict"], { file: "what_ifs" }),
    ...(grown.length > 0 ? [curve("ttft_p99_ms", "ttft"), curve("tpot_p99_ms", "tpot")] : [])];
};

// Designs of one kind of node, or of all.
const capacityLedger = (rows) => {
  const shownNames = ["node", "role", "nodes_of_instance", "attention_tp", "ep_size", "policy", "settings", "status", "instances_asked", "ttft_p99_ms", "tpot_p99_ms", "reason"];
  return chosenChart([{ label: "node", value: "all", options: ["all", ...new Set(rows.map((row) => row.node))].map((node) => [node, node]) }],
    ([node]) => capacityTable("Designs", rows.filter((row) => node === "all" || row.node === node), shownNames, { long: true, file: "candidates" }));
};

const capacitySections = (root) => {
  const plan = jsonFile(join(root, "capacity.json")), about = (row) => `${row.role}, ${row.instances_asked} x ${sizeOf(row.nodes_of_instance)}, TP ${row.attention_tp}${row.ep_size ? `, EP ${row.ep_size}` : ""}, ${row.policy}`;
  setTitle(`Capacity for ${plan.model}`);
  section("What to rent", verdict([plan.answer], [...(plan.why ? [["Why", plan.why]] : []), ...warned([plan])], plan.feasible ? "" : "Infeasible."),
    el("p", {}, `${plan.model} for ${plan.demand}; SLO ${plan.demand_slo}; ${plan.candidates.length} designs, ${plan.runs_asked} runs.`));
  if (plan.deployments.length > 0) {
    const priced = plan.deployments.every((row) => row.usd_per_hour !== null);
    section("Deployments", capacityTable("The fewest nodes of each kind", plan.deployments, ["node", "pools", "policy", "nodes_of_deployment", "gpus_of_deployment", "usd_per_hour", "usd_per_million_tokens", "usd_per_million_output_tokens", "watts", "joules_per_token", "ttft_p99_ms", "tpot_p99_ms", "price"], { file: "deployments" }),
      priced ? capacityBars("Cost by deployment", "", deploymentNames(plan.deployments), "usd_per_hour", plan.deployments.map((row) => row.usd_per_hour)) : null,
      capacityPareto(plan.deployments, "ttft_p99_ms", "usd_per_million_output_tokens", "Cost against TTFT", "Each mark is a deployment that holds the SLO.", (row) => row.pools));
  }
  if (plan.prices.length > 0) section("By source of the price", el("p", {}, "The recommended deployment at every price that is known for its nodes."), capacityTable("Prices", plan.prices, ["seller", "price_terms", "as_of", "usd_per_node_hour", "usd_per_hour", "usd_per_million_output_tokens", "source"], { file: "prices" }));
  if (plan.what_ifs.length > 0) section("What if", ...capacityWhatIfs(plan));
  const run = plan.candidates.filter((row) => row.instances_asked > 0 && row.role !== "prefill");
  section("Designs that were run", capacityPareto(run, "tokens_per_s_per_user", "output_tokens_per_s_per_gpu", "Tokens per GPU against tokens per user", "Of one instance at the rate it was asked. Hollow: the SLO does not hold. Prefill instances are left out.", about), capacityLedger(plan.candidates));
};
