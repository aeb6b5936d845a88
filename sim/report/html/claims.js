// A reproduction: a paper's claims with their verdicts, and charts of what they were worked out from.

const verdictMarks = { reproduced: "✓ reproduced", "order only": "≈ order only", missed: "✗ missed" };
const bound = (value) => (value === null ? NaN : num(value));
const toleranceOf = (claim) => {
  const low = bound(claim.tolerance_low), high = bound(claim.tolerance_high);
  if (low === high) return `exactly ${shown(low)}`;
  if (Number.isNaN(low)) return `at most ${shown(high)}`;
  return Number.isNaN(high) ? `at least ${shown(low)}` : `${shown(low)} to ${shown(high)}`;
};

// What a claim's figure comes to: "1.31 ± 0.02", "12 s".
const oursOf = (claim) => shown(bound(claim.value)) + (claim.half_width === null ? "" : ` ± ${shown(claim.half_width)}`) + (claim.unit === "" ? "" : " " + claim.unit);

const claimsTable = (document) => {
  const marked = (cell) => "verdict " + (cell.startsWith("✓") ? "good" : cell.startsWith("≈") ? "half" : "bad");
  const claimOf = (row) => row[row.length - 1], ours = (row) => oursOf(claimOf(row));
  const verdict = (row) => row[1] + (claimOf(row).must_hold ? "" : " (not\u00a0required)");
  const columns = [{ name: "claim", text: true }, { name: "verdict", text: true, mark: marked, show: verdict }, { name: "statement", label: "what", text: true },
    { name: "paper_value", label: "paper", text: true }, { name: "paper_place", label: "where", text: true }, { name: "value", label: "ours", show: ours }, { name: "tolerance", text: true, note: "Between which values the claim counts as reproduced." },
    { name: "reason", label: "why, and how it was read", text: true }];
  const moved = document.claims.some((c) => c.moved_most_by.length > 0);
  if (moved) columns.push({ name: "moved_most_by", label: "moved most by", text: true });
  const movement = (c) => c.moved_most_by.map((m) => `${m.input}, ${m.input_change}: ${shown(bound(m.value_before))} to ${shown(bound(m.value_after))}`).join("; ");
  const rows = document.claims.map((c) => [c.claim, verdictMarks[c.verdict] ?? c.verdict, c.statement, c.paper_value, c.paper_place, bound(c.value), toleranceOf(c),
    [c.verdict === "reproduced" ? "" : c.reason, c.note].filter((text) => text !== "").join("; "), ...(moved ? [movement(c)] : []), c]);
  const names = ["claim", "statement", "claim_kind", "paper_value", "paper_place", "value", "half_width", "unit", "tolerance_low", "tolerance_high", "verdict", "reason", "must_hold", "note"];
  return table("Every claim", columns, rows, { file: "claims", names, all: document.claims.map((claim) => names.map((name) => claim[name])),
    note: "± is half the width of the 95 % interval over seeds; without it there is one seed, or nothing varies. Not required: a miss does not fail the reproduction. A click on a column's name sorts by it." });
};

const claimsSection = (document) => {
  const failed = document.claims.filter((c) => c.must_hold && c.verdict !== "reproduced");
  const tile = (value, text, name) => el("div", { class: "tile" }, el("b", {}, shown(value)), term(text, name));
  const node = section("Claims", el("p", {}, `${document.study}, re-run: ${document.setting}.`),
    el("div", { class: "tiles" }, tile(document.claims_reproduced, "reproduced", "claims_reproduced"), tile(document.claims_order_only, "in order only", "claims_order_only"),
      tile(document.claims_missed, "missed", "claims_missed"), tile(document.claims_not_run.length, "claims not run", "claims_not_run")),
    el("p", {}, !document.claims.some((c) => c.must_hold) ? "None of these figures must hold: a miss does not fail the reproduction." :
      document.all_hold ? "Every figure that must hold was reproduced." :
      `${countOf(failed.length, "figure")} that must hold ${failed.length === 1 ? "was" : "were"} not reproduced: ${[...new Set(failed.map((c) => c.claim))].join(", ")}.`));
  if (document.claims_not_run.length > 0) node.append(el("p", { class: "note" }, `Not run: ${document.claims_not_run.join(", ")}.`));
  node.append(claimsTable(document));
  const elsewhere = document.claims_elsewhere ?? [];
  if (elsewhere.length > 0) {
    const columns = [{ name: "claim", text: true }, { name: "statement", label: "what", text: true }, { name: "paper_place", label: "where", text: true }, { name: "held_by", label: "checked by", text: true }, { name: "open_reason", label: "why not yet", text: true }];
    const rows = elsewhere.map((c) => columns.map(({ name }) => c[name]));
    node.append(table("Claims that no run here checks", columns, rows, { file: "claims_elsewhere", names: columns.map(({ name }) => name), all: rows }));
  }
};

// A metric of a study as bars by setup, one for each policy.
const setupBars = (setups, policies, study, name) => {
  const at = setups.texts("setup"), of = setups.texts("policy"), figures = setups.numbers("value");
  const mine = [...at.keys()].filter((i) => setups.texts("study")[i] === study && setups.texts("metric")[i] === name), labels = [...new Set(mine.map((i) => at[i]))];
  const value = (setup, policy) => figures[mine.find((i) => at[i] === setup && of[i] === policy) ?? -1] ?? NaN;
  const used = policies.filter((policy) => labels.some((setup) => Number.isFinite(value(setup, policy))));
  return chart({ type: "bar", x: "setup", term: name, title: `${sentence(wordsOf(name))}: ${study.replaceAll("_", " ")}`, y: withUnit("mean over seeds", name), labels,
    datasets: used.map((policy) => ({ label: policy, data: labels.map((setup) => value(setup, policy)) })),
    data: { names: ["setup", "policy", "study", "metric", "value"], rows: mine.map((i) => setups.rows[i]) } });
};

// What follows a choice of setup: `make(setup)` gives a node.
const bySetup = (title, names, make) => chosenChart([{ label: "setup", name: `setup of: ${title}`, value: names[0], options: names.map((name) => [name, name]) }], ([setup]) => make(setup));

const inWords = (a = "", b = "") => a.localeCompare(b, "en", { numeric: true });
// Every metric that the claims use, study by study; where the time of a study's steps goes is drawn by itself.
const metricsOfSetups = (setups, policies) => {
  const pairs = [...new Set(setups.rows.map((_, i) => setups.texts("study")[i] + " " + setups.texts("metric")[i]))].map((pair) => pair.split(" "));
  const drawn = pairs.filter(([study, name]) => !timed(setups, study) || !parts().some((part) => name === part + "_share"));
  section("What the claims are worked out from", drawn.length === 0 ? absent("The claims that were asked for need loads alone.") :
    el("div", { class: "grid" }, ...drawn.map(([study, name]) => setupBars(setups, policies, study, name))));
};
// Whether the table has the whole time of a study's steps by part.
const timed = (setups, study) => parts().every((part) => setups.rows.some((_, i) => setups.texts("study")[i] === study && setups.texts("metric")[i] === part + "_share"));

// Throughput-TTFT curves of the studies below the folder, one setup at a time.
const curvesOfSetups = (root) => {
  const studies = Object.keys(report.files).filter((path) => path.endsWith("/curve.csv") && path.startsWith(root === "" ? "" : root + "/") && report.files[folderOf(path) + "/goodput.csv"] !== undefined).map(folderOf);
  const node = section("Throughput and TTFT");
  if (studies.length === 0) { node.append(absent("No setup was searched, so there are no curves.")); return; }
  const shortOf = (folder) => (root === "" ? folder : folder.slice(root.length + 1));
  node.append(bySetup("throughput and TTFT", studies.map(shortOf).sort(inWords), (name) => studyCurves(join(root, name), `TTFT against offered load: ${name}`)));
};

const timeOfSetups = (setups) => {
  const at = setups.texts("setup"), of = setups.texts("policy"), metric = setups.texts("metric"), figures = setups.numbers("value");
  for (const study of ["run", "near_knee"].filter((name) => timed(setups, name))) {
    const known = [...at.keys()].filter((i) => setups.texts("study")[i] === study), title = study === "run" ? "in the runs" : "near the knee";
    section(`Where the time goes ${title}`, bySetup(`time ${title}`, [...new Set(known.map((i) => at[i]))], (setup) => {
      const mine = known.filter((i) => at[i] === setup), policies = [...new Set(mine.map((i) => of[i]))];
      const value = (policy, part) => figures[mine.find((i) => of[i] === policy && metric[i] === part + "_share")] ?? NaN;
      const used = parts().filter((part) => policies.some((policy) => value(policy, part) > 0));
      return chart({ type: "bar", stacked: true, horizontal: true, most: 1, title: `Steps by layer part: ${setup}`, term: "time_by_part", x: "policy", y: "share of the step time", labels: policies,
        datasets: used.map((part) => ({ label: part, item: true, data: policies.map((policy) => value(policy, part)) })),
        data: { names: ["policy", "part", "share"], rows: policies.flatMap((policy) => used.map((part) => [policy, part, value(policy, part)])) } });
    }));
  }
};

const movementsOfClaims = (root) => {
  const all = csvFile(join(root, "sensitivity.csv"));
  if (!all) { section("What moves the claims", absent("Not asked for: --sensitivity changes one input at a time.")); return; }
  const before = all.numbers("value_before"), after = all.numbers("value_after");
  section("What moves the claims", el("p", {}, "Each input changed alone, by what is not known of it; before and after on a few setups under the first seed, so neither is the claim's own figure."),
    table("Every figure under every change", [{ name: "claim", text: true }, { name: "statement", label: "what", text: true }, { name: "input", text: true }, { name: "input_change", label: "change", text: true },
      { name: "value_before", label: "before" }, { name: "value_after", label: "after" }, { name: "difference", note: "after - before" }],
      all.rows.map((row, i) => [...row.slice(0, 4), before[i], after[i], after[i] - before[i]]), { long: true, file: "sensitivity", names: all.names, all: all.rows }));
};

const claimsSections = (root) => {
  const document = jsonFile(join(root, "claims.json")), setups = csvFile(join(root, "setups.csv"));
  setTitle(`${document.study}, re-run`);
  claimsSection(document);
  if (!setups || setups.rows.length === 0) { section("Setups", absent("No setups.csv with rows in this folder, so there are no charts.")); return; }
  const policies = [...new Set(setups.texts("policy"))].sort(inWords);
  seePolicies(policies);
  movementsOfClaims(root);
  metricsOfSetups(setups, policies);
  curvesOfSetups(root);
  timeOfSetups(setups);
  section("What it was made from", el("p", {}, `epsim ${document.epsim_version}; ${document.setting}. A setup that was searched has a folder of its own, with resolved.yaml, which epsim goodput reads and epsim report draws.`),
    table("All figures by setup, policy and study", setups.names.map((name) => ({ name, text: name !== "value" })), setups.rows.map((row) => row.map((cell, i) => (i === 4 ? num(cell) : cell))),
      { long: true, file: "setups", names: setups.names, all: setups.rows }));
};
