// A reproduction: a paper's claims with their verdicts, and charts of what they were worked out from.

const verdictMarks = { reproduced: "✓ reproduced", "order only": "≈ order only", missed: "✗ missed" };
const bound = (value) => (value === null ? NaN : num(value));
// Figures whose unit is "digits" are several figures of one digit each: 2240 is "2 2 4 0", as many as the tolerance has.
const inUnitOf = (claim, value) => (claim.unit === "digits" ? String(value).padStart(String(claim.tolerance_high).length, "0").split("").join(" ") : shown(value));
const toleranceOf = (claim) => {
  const low = bound(claim.tolerance_low), high = bound(claim.tolerance_high);
  if (low === high) return `exactly ${inUnitOf(claim, low)}`;
  if (Number.isNaN(low)) return `at most ${shown(high)}`;
  return Number.isNaN(high) ? `at least ${shown(low)}` : `${shown(low)} to ${shown(high)}`;
};

// What a claim's figure comes to: "1.31 ± 0.02", "12 s".
const oursOf = (claim) => inUnitOf(claim, bound(claim.value)) + (claim.half_width === null ? "" : ` ± ${shown(claim.half_width)}`) +
  (["", "digits"].includes(claim.unit) ? "" : " " + claim.unit);

const claimsTable = (document) => {
  const marked = (cell) => "verdict " + (cell.startsWith("✓") ? "good" : cell.startsWith("≈") ? "half" : "bad");
  const claimOf = (row) => row[row.length - 1], ours = (row) => oursOf(claimOf(row));
  const verdict = (row) => row[1] + (claimOf(row).must_hold ? "" : " (told\u00a0only)");
  const columns = [{ name: "claim", text: true }, { name: "verdict", text: true, mark: marked, show: verdict }, { name: "statement", label: "what", text: true },
    { name: "paper_value", label: "paper", text: true }, { name: "value", label: "ours", show: ours }, { name: "tolerance", text: true, note: "Between which values the claim counts as reproduced." },
    { name: "reason", label: "why, and how it was read", text: true }];
  const moved = document.claims.some((c) => c.moved_most_by.length > 0);
  if (moved) columns.push({ name: "moved_most_by", label: "moved most by", text: true });
  const movement = (c) => c.moved_most_by.map((m) => `${m.input}, ${m.input_change}: ${inUnitOf(c, bound(m.value_before))} to ${inUnitOf(c, bound(m.value_after))}`).join("; ");
  const rows = document.claims.map((c) => [c.claim, verdictMarks[c.verdict] ?? c.verdict, c.statement, c.paper_value, bound(c.value), toleranceOf(c),
    [c.verdict === "reproduced" ? "" : c.reason, c.note].filter((text) => text !== "").join("; "), ...(moved ? [movement(c)] : []), c]);
  const names = ["claim", "statement", "claim_kind", "paper_value", "value", "half_width", "unit", "tolerance_low", "tolerance_high", "verdict", "reason", "must_hold", "note"];
  return table("Every claim", columns, rows, { file: "claims", names, all: document.claims.map((claim) => names.map((name) => claim[name])),
    note: "± is half the width of the 95 % interval over seeds; without it there is one seed, or nothing varies. Told only: a miss does not fail the reproduction. A click on a column's name sorts by it." });
};

const claimsSection = (document) => {
  const failed = document.claims.filter((c) => c.must_hold && c.verdict !== "reproduced");
  const tile = (value, text, name) => el("div", { class: "tile" }, el("b", {}, shown(value)), term(text, name));
  const node = section("Claims", el("p", {}, `${document.study}, re-run: ${document.setting}.`),
    el("div", { class: "tiles" }, tile(document.claims_reproduced, "reproduced", "claims_reproduced"), tile(document.claims_order_only, "in order only", "claims_order_only"),
      tile(document.claims_missed, "missed", "claims_missed"), tile(document.claims_not_run.length, "claims not run", "claims_not_run")),
    el("p", {}, !document.claims.some((c) => c.must_hold) ? "None of these figures must hold: few requests under one seed decide nothing that needs prices." :
      document.all_hold ? "Every figure that must hold was reproduced." :
      `${failed.length} figures that must hold were not reproduced: ${[...new Set(failed.map((c) => c.claim))].join(", ")}.`));
  if (document.claims_not_run.length > 0) node.append(el("p", { class: "note" }, `Not run: ${document.claims_not_run.join(", ")}.`));
  node.append(claimsTable(document));
};

// Bars by setup, one for each policy that has the figure anywhere.
const setupBars = (setups, policies, name, spec) => {
  const all = [...new Set(setups.texts("setup"))], at = setups.texts("setup"), of = setups.texts("policy"), figures = setups.numbers(name);
  const value = (setup, policy) => figures.find((_, i) => at[i] === setup && of[i] === policy) ?? NaN;
  const used = policies.filter((policy) => all.some((setup) => Number.isFinite(value(setup, policy))));
  const labels = all.filter((setup) => used.some((policy) => Number.isFinite(value(setup, policy))));
  if (used.length === 0) return null;
  return chart({ type: "bar", x: "setup", term: name, ...spec, y: withUnit(spec.yText, name), labels,
    datasets: used.map((policy) => ({ label: policy, data: labels.map((setup) => value(setup, policy)) })),
    data: { names: ["setup", "policy", name], rows: labels.flatMap((setup) => used.map((policy) => [setup, policy, value(setup, policy)])) } });
};

// A figure against the extra copies on a GPU, a line per setup on which R was swept: BASE and CRAFT; EPLB stands apart.
const againstCopies = (setups, swept, name, spec) => {
  const at = setups.texts("setup"), of = setups.texts("policy"), copies = setups.numbers("copies_per_gpu"), figures = setups.numbers(name);
  const rowsOf = (setup, wanted) => [...at.keys()].filter((i) => at[i] === setup && wanted(of[i]) && Number.isFinite(figures[i])).sort((a, b) => copies[a] - copies[b]);
  const series = swept.flatMap((setup) => [
    { label: setup, points: rowsOf(setup, (policy) => policy !== "eplb"), style: {} },
    { label: `${setup}, eplb`, points: rowsOf(setup, (policy) => policy === "eplb"), style: { tone: setup, mark: d3.symbolStar, size: 10, line: false } }]);
  return chart({ type: "line", x: "extra copies per GPU, all layers (R)", term: name, near: true, ...spec, y: withUnit(spec.yText, name),
    datasets: series.map((one) => ({ label: one.label, data: one.points.map((i) => ({ x: copies[i], y: figures[i] })), ...one.style })),
    data: { names: ["setup", "policy", "copies_per_gpu", name], rows: series.flatMap((one) => one.points.map((i) => [at[i], of[i], copies[i], figures[i]])) } });
};

// What follows a choice of setup: `make(setup)` gives a node.
const bySetup = (title, names, make) => chosenChart([{ label: "setup", name: `setup of: ${title}`, value: names[0], options: names.map((name) => [name, name]) }], ([setup]) => make(setup));

const inWords = (a = "", b = "") => a.localeCompare(b, "en", { numeric: true });
// Setups by model, then workload from high to low skew, then number of nodes: ke8 before ke12 before kj6.
const setupOrder = (a, b) => {
  const keyOf = (name) => { const parts = /^([a-z])([ejla])(\d+)(\/|$)/.exec(name); return parts ? [parts[1], "ejla".indexOf(parts[2]), Number(parts[3])] : null; };
  const [x, y] = [keyOf(a), keyOf(b)];
  if (!x || !y) return x ? -1 : y ? 1 : inWords(a, b);
  return x[0].localeCompare(y[0], "en") || x[1] - y[1] || x[2] - y[2] || inWords(a, b);
};
// A table of setups in that order, each with its policies in theirs; null where the folder does not have it.
const setupsFile = (path) => csvFile(path)?.sortedBy("policy", inWords).sortedBy("setup", setupOrder) ?? null;

const goodputOfSetups = (setups, policies) => {
  const knees = setupBars(setups, policies, "knee_requests_per_s", { title: "Goodput by setup", yText: "request rate at the knee", note: "Mean over seeds. d: DeepSeek-R1, k: Kimi-K2; e, j: high skew, l, a: low skew; the number is that of nodes." });
  const lost = setupBars(setups, policies, "kv_lost_to_copies_share", { title: "KV cache that copies take", yText: "share of the KV pool" });
  section("Goodput and KV cache", el("div", { class: "grid" }, knees ?? absent("No setup was searched: the claims that were asked for need plans alone."), lost));
  const swept = [...new Set(setups.texts("setup"))].filter((name) => setups.rows.filter((_, i) => setups.texts("setup")[i] === name && /^cra\d+$/.test(setups.texts("policy")[i]) &&
    Number.isFinite(setups.numbers("knee_requests_per_s")[i])).length > 1);
  const node = section("Against the number of copies");
  if (swept.length === 0) { node.append(absent("R was swept on no setup; claims C02 and C27 do that, and --quick leaves them out.")); return; }
  node.append(el("p", {}, "Stars are EPLB: a copy in every layer and on every GPU."), el("div", { class: "grid" },
    againstCopies(setups, swept, "knee_requests_per_s", { title: "Goodput against R", yText: "request rate at the knee" }),
    againstCopies(setups, swept, "kv_lost_to_copies_share", { title: "KV cache lost against R", yText: "share of the KV pool" }),
    againstCopies(setups, swept, "balancedness_planned", { title: "Planned balancedness against R", yText: "mean / max GPU load" }),
    againstCopies(setups, swept, "balancedness_mean", { title: "Balancedness near the knee against R", yText: "mean / max GPU load" })));
};

// Throughput-TTFT curves of the studies below the folder, one setup at a time.
const curvesOfSetups = (root) => {
  const studies = Object.keys(report.files).filter((path) => path.endsWith("/curve.csv") && path.startsWith(root === "" ? "" : root + "/") && report.files[folderOf(path) + "/goodput.csv"] !== undefined).map(folderOf);
  const node = section("Throughput and TTFT");
  if (studies.length === 0) { node.append(absent("No setup was searched, so there are no curves.")); return; }
  const shortOf = (folder) => (root === "" ? folder : folder.slice(root.length + 1));
  node.append(bySetup("throughput and TTFT", studies.map(shortOf).sort(setupOrder), (name) => studyCurves(join(root, name), `TTFT against offered load: ${name}`)));
};

// TTFT of all policies at one rate per setup, below saturation of each.
const fixedRates = (root, policies) => {
  const fixed = setupsFile(join(root, "fixed_rates.csv"));
  if (!fixed || fixed.rows.length === 0) return;
  const at = fixed.texts("setup"), of = fixed.texts("policy"), share = fixed.numbers("lowest_knee_share"), ttft = fixed.numbers("ttft_mean_ms");
  const near = Math.max(...share), setups = [...new Set(at)], used = policies.filter((policy) => of.includes(policy));
  const value = (setup, policy) => ttft[at.findIndex((name, i) => name === setup && of[i] === policy && share[i] === near)] ?? NaN;
  section("TTFT below saturation", chart({ type: "bar", title: `Mean TTFT at ${shown(near * 100)} % of the lowest knee`, term: "lowest_knee_share", x: "setup", y: "mean TTFT [ms]", labels: setups,
    datasets: used.map((policy) => ({ label: policy, data: setups.map((setup) => value(setup, policy)) })),
    data: { names: ["setup", "policy", "lowest_knee_share", "ttft_mean_ms"], rows: setups.flatMap((setup) => used.map((policy) => [setup, policy, near, value(setup, policy)]).filter((row) => !Number.isNaN(row[3]))) } }));
};

// Fig. 8 of the paper: mean over layers, each with as many copies.
const balanceAgainstCopies = (gains) => {
  const at = gains.texts("setup"), copies = gains.numbers("layer_copies"), figures = gains.numbers("layer_balancedness"), packed = gains.texts("layer_placement").map((placement) => placement === "packed");
  const counts = [...new Set(copies)].sort((a, b) => a - b), setups = [...new Set(at)];
  const mean = (setup, count) => {
    const mine = figures.filter((_, i) => packed[i] && at[i] === setup && copies[i] === count);
    return mine.length === 0 ? NaN : mine.reduce((a, b) => a + b, 0) / mine.length;
  };
  return chart({ type: "line", near: true, tall: true, title: "Balancedness against the copies of a layer", term: "layer_balancedness", x: "copies of every layer", y: "mean / max GPU load", labels: counts,
    note: "Mean over layers, each with as many copies; 0 is placement alone, and a line's last point a copy per layer and GPU, EPLB's least.",
    datasets: setups.map((setup) => ({ label: setup, data: counts.map((count) => mean(setup, count)) })),
    data: { names: ["setup", "layer_copies", "layer_balancedness"], rows: setups.flatMap((setup) => counts.map((count) => [setup, count, mean(setup, count)]).filter(([, , value]) => !Number.isNaN(value))) } });
};

// Fig. 7: what placement and copies bring to each layer. `gains` are those of one setup.
const balanceSplit = (setup, gains) => {
  const layer = gains.numbers("layer"), copies = gains.numbers("layer_copies"), figures = gains.numbers("layer_balancedness"), placement = gains.texts("layer_placement");
  const layers = [...new Set(layer)], most = Math.max(...copies);
  const value = (l, how, count) => figures[layer.findIndex((of, i) => of === l && placement[i] === how && copies[i] === count)];
  const split = layers.map((l) => { const inOrder = value(l, "in_order", 0), packed = value(l, "packed", 0); return [inOrder, packed - inOrder, value(l, "packed", most) - packed]; });
  return chart({ type: "bar", stacked: true, title: `Balancedness by what brings it: ${setup}`, term: "layer_balancedness", x: "layer", y: "mean / max GPU load", labels: layers,
    note: `Experts in order, then what packing them and ${shown(most)} copies of the layer, one per GPU, add.`,
    datasets: ["experts in order", "placement adds", "copies add"].map((label, k) => ({ label, item: true, data: split.map((row) => row[k]) })),
    data: { names: ["layer", "in_order", "placement_adds", "copies_add"], rows: layers.map((l, i) => [l, ...split[i]]) } });
};

const balanceOfSetups = (root) => {
  const layers = setupsFile(join(root, "setup_layers.csv")), gains = setupsFile(join(root, "setup_gains.csv"));
  const node = section("Balance and what copies bring");
  if (!layers || !gains) { node.append(absent("No setup_layers.csv and setup_gains.csv in this folder.")); return; }
  const at = layers.texts("setup"), of = layers.texts("policy");
  node.append(balanceAgainstCopies(gains), bySetup("balance", [...new Set(at)], (setup) => {
    const mine = [...at.keys()].filter((i) => at[i] === setup), policies = [...new Set(mine.map((i) => of[i]))];
    const figure = (name) => policies.map((policy) => mine.filter((i) => of[i] === policy)).map((rows, p) => ({ label: policies[p], x: rows.map((i) => layers.numbers("layer")[i]), y: rows.map((i) => layers.numbers(name)[i]) }));
    const ofSetup = gains.where("setup", (name) => name === setup);
    const map = pivot(ofSetup.where("layer_copies", (count) => num(count) > 0), "layer", "layer_copies", "balancedness_gain");
    return el("div", { class: "grid" }, balanceSplit(setup, ofSetup),
      lines({ title: `Planned balancedness by layer: ${setup}`, term: "planned_balancedness", x: "layer", xName: "layer", y: "mean / max GPU load", yName: "planned_balancedness" }, figure("planned_balancedness")),
      lines({ title: `Hottest expert by layer: ${setup}`, term: "hottest_over_mean", x: "layer", xName: "layer", y: "load / mean", yName: "hottest_over_mean", seriesName: "setup" }, [{ ...figure("hottest_over_mean")[0], label: setup }]),
      heatmap({ title: `Balance gained by copies of a layer: ${setup}`, term: "balancedness_gain", note: "Where a row stops getting brighter, more copies of that layer bring nothing.", rowName: "layer", columnName: "copies of the layer", valueName: "balancedness gained",
        rows: map.rows, columns: map.columns, values: map.values }));
  }));
};

const timeOfSetups = (setups) => {
  const at = setups.texts("setup"), of = setups.texts("policy"), rate = setups.numbers("near_knee_requests_per_s");
  const known = [...at.keys()].filter((i) => Number.isFinite(rate[i]));
  if (known.length === 0) return;
  section("Where the time goes near the knee", bySetup("time near the knee", [...new Set(known.map((i) => at[i]))], (setup) => {
    const mine = known.filter((i) => at[i] === setup);
    const value = (i, part) => setups.numbers(part + "_share")[i];
    const used = parts().filter((part) => mine.some((i) => value(i, part) > 0));
    return el("div", { class: "grid" },
      chart({ type: "bar", stacked: true, horizontal: true, most: 1, title: `Steps by layer part: ${setup}`, term: "time_by_part", x: "policy", y: "share of the step time", labels: mine.map((i) => of[i]),
        datasets: used.map((part) => ({ label: part, item: true, data: mine.map((i) => value(i, part)) })),
        data: { names: ["policy", "part", "share"], rows: mine.flatMap((i) => used.map((part) => [of[i], part, value(i, part)])) } }),
      table(`Near the knee: ${setup}`, [{ name: "policy", text: true }, ...["near_knee_requests_per_s", "itl_mean_ms", "balancedness_mean", "kv_full_time_share", "extrapolated_share"].map((name) => ({ name }))],
        mine.map((i) => [of[i], ...["near_knee_requests_per_s", "itl_mean_ms", "balancedness_mean", "kv_full_time_share", "extrapolated_share"].map((name) => setups.numbers(name)[i])])));
  }));
};

const limitsOfSetups = (setups, policies) => {
  const wait = setupBars(setups, policies, "saturated_kv_wait_share", { title: "Waiting for KV cache at saturation", yText: "share of the busy time", most: 1 });
  const exchange = setupBars(setups, policies, "saturated_exchange_share", { title: "Exchange at saturation", yText: "share of the step time", most: 1 });
  if (wait && exchange) section("What binds a setup", el("p", {}, "Requests come at 50/s, over ten times what any setup serves. A policy counts as bound by KV cache where the first share is larger than the second, else by the wire (claim F01)."), el("div", { class: "grid" }, wait, exchange));
};

const movementsOfClaims = (root) => {
  const all = csvFile(join(root, "sensitivity.csv"));
  if (!all) { section("What moves the claims", absent("Not asked for: epsim reproduce craft --sensitivity changes one input at a time.")); return; }
  const before = all.numbers("value_before"), after = all.numbers("value_after");
  section("What moves the claims", el("p", {}, "Each input changed alone, by what is not known of it; before and after on five setups under the first seed, so neither is the claim's own figure."),
    table("Every figure under every change", [{ name: "claim", text: true }, { name: "statement", label: "what", text: true }, { name: "input", text: true }, { name: "input_change", label: "change", text: true },
      { name: "value_before", label: "before" }, { name: "value_after", label: "after" }, { name: "difference", note: "after - before" }],
      all.rows.map((row, i) => [...row.slice(0, 4), before[i], after[i], after[i] - before[i]]), { long: true, file: "sensitivity", names: all.names, all: all.rows }));
};

// One setup in detail: three policies at one rate, in the form of a comparison.
const exampleFolder = (root) => join(root, "example-run");
const exampleSections = (root) => {
  const folder = exampleFolder(root), example = csvFile(join(folder, "example_run.csv"));
  if (!example || example.rows.length === 0) { section("One setup in detail", absent("No policies are run side by side: that takes a setup on which base, cra8 and eplb were all searched (claims C17 and C18 together do), and requests with a rate and a number.")); return; }
  const [setup] = example.texts("setup"), [rate] = example.numbers("offered_requests_per_s"), [share] = example.numbers("lowest_knee_share"), [count] = example.numbers("offered_requests");
  const policies = example.texts("policy"), knees = example.numbers("knee_requests_per_s"), lowest = Math.min(...knees);
  section(`One setup in detail: ${setup} at ${shown(rate)} requests/s`,
    el("p", {}, `${policies.slice(0, -1).join(", ")} and ${policies.at(-1)} serve the same ${shown(count)} requests of ${setup}, which come at ${shown(rate)}/s: `, term(`${shown(share * 100)} %`, "lowest_knee_share"),
      ` of the lowest of their knees under the first seed, ${shown(lowest)}/s of ${policies[knees.indexOf(lowest)]}. Up to “${setup}: what it was made from” everything is of these runs; what epsim compare writes of them is in example-run.`));
  within(setup, () => runSections(folder));
};

const claimsSections = (root) => {
  const document = jsonFile(join(root, "claims.json")), setups = setupsFile(join(root, "setups.csv"));
  setTitle(`${document.study}, re-run`);
  claimsSection(document);
  if (!setups || setups.rows.length === 0) { section("Setups", absent("No setups.csv with rows in this folder, so there are no charts.")); return; }
  const policies = [...new Set(setups.texts("policy"))].sort(inWords);
  seePolicies(policies);
  movementsOfClaims(root);
  goodputOfSetups(setups, policies);
  curvesOfSetups(root);
  fixedRates(root, policies);
  balanceOfSetups(root);
  timeOfSetups(setups);
  limitsOfSetups(setups, policies);
  guarded("The setup in detail", () => exampleSections(root));
  section("What it was made from", el("p", {}, `epsim ${document.epsim_version}; ${document.setting}. Each setup has a folder of its own, with resolved.yaml, which epsim goodput reads and epsim report draws.`),
    table("All figures by setup and policy", setups.names.map((name) => ({ name, text: ["setup", "policy", "bound_by"].includes(name) })),
      setups.rows.map((row) => row.map((cell, i) => (["setup", "policy", "bound_by"].includes(setups.names[i]) ? cell : num(cell)))), { long: true, file: "setups", names: setups.names, all: setups.rows }));
};
