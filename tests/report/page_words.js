// usage: node page_words.js SOURCE_FOLDER D3_FILE
// What the first screen of a report says, without a browser: the page's program over a document that keeps texts alone.
const fs = require("fs"), path = require("path"), vm = require("vm"), assert = require("assert");
const [source, d3File] = process.argv.slice(2);

class Node {
  constructor() { this.parts = []; }
  append(...parts) { this.parts.push(...parts.map((part) => (part instanceof Node ? part : String(part)))); }
  replaceChildren(...parts) { this.parts = []; this.append(...parts); }
  setAttribute() {}
  addEventListener() {}
  get textContent() { return this.parts.map((part) => (part instanceof Node ? part.textContent : part)).join("").replaceAll("\u00a0", " "); }
  set textContent(text) { this.parts = [text]; }
}

// The functions named, over a report with these data.
const page = (data, names) => {
  const nodes = {}, document = { documentElement: {}, createElement: () => new Node(), addEventListener: () => {}, getElementById: (id) => (nodes[id] ??= new Node()), querySelector: (what) => (nodes[what] ??= new Node()) };
  document.getElementById("data").textContent = JSON.stringify({ files: {}, scenarios: {}, hardware: {}, definitions: {}, key_figures: [], layer_parts: ["experts"], origins: [], title: "t", ...data });
  const scripts = ["base.js", "head.js", "tables.js", "runs.js", "goodput.js", "sweep.js", "capacity.js", "claims.js"].map((name) => fs.readFileSync(path.join(source, "sim/report/html", name), "utf8"));
  const context = vm.createContext({ document, console, ResizeObserver: class { observe() {} }, structuredClone: (value) => (value === null ? null : JSON.parse(JSON.stringify(value))) });
  vm.runInContext(fs.readFileSync(d3File, "utf8"), context);
  return vm.runInContext(`${scripts.join("\n")}\nconst chart = ({ title, note }) => Object.assign(el("p", {}, note), { title }), colour = () => "";  // in place of charts.js\n({ ${names.join(", ")} })`, context);
};

// Hardware: GPUs of all instances, as many of each node as are used.
const hardware = { H: { gpu: "H100", gpus: 8 } }, scenario = { cluster: { node: "H", nodes: 2, gpus_per_node: 4 }, model: { architecture: "m" }, dispatch: { transport: "of-two-nodes" }, requests: { kind: "poisson", rate: "2/s", count: 200 } };
const head = (own, options) => {
  const { headOf } = page({ hardware, scenarios: { "": { ...scenario, ...own } } }, ["headOf"]);
  return headOf("", "a run", { seeds: "1", version: "1", ...options }).textContent;
};
assert.match(head({}, {}), /GPUs8 × H100 \(2 × H, in part\)/);  // 2 nodes x 4
assert.match(head({ deployment: { prefill: { instances: 3 }, decode: { nodes: 1, gpus_per_node: 2 } } }, {}), /GPUs26 × H100 \(7 × H, in part\)/);  // 3 x 2 x 4 + 1 x 1 x 2
assert.match(head({ deployment: { prefill: { nodes: 1 }, decode: {} }, requests: { kind: "poisson", count: 1 } }, {}), /1 prefill of 1 node \+ 1 decode of 2 nodes.*poisson, 1 request(?!s)/s);
assert.match(head({ cluster: { node: "H", nodes: 2 } }, {}), /GPUs16 × H100 \(2 × H\)/);
assert.match(page({}, ["headOf"]).headOf("", "a run", {}).textContent, /^No resolved\.yaml in this folder/);
assert.match(head({}, { rate: "rates searched" }), /Requestspoisson, rates searched(?!.*200)/);  // a search makes its own
assert.match(head({}, {}), /at 2\/s, 200 requests/);
const swept = head({}, { varied: [{ key: "cluster.nodes", values: ["1", "4"] }], gpus: [4, 16] });
assert.match(swept, /GPUs4 to 16 × H100/);
assert.doesNotMatch(swept, /of-two-nodes|NaN/);
const deployments = head({}, { varied: [{ key: "deployment", values: ["{instances: 1}", "{instances: 2}"] }], gpus: [8, 16] });
assert.match(deployments, /GPUs8 to 16 × H100.*Deployment\{instances: 1\}, \{instances: 2\}/);
assert.match(head({}, { varied: [{ key: "nodes", values: ["a", "b"], settings: [["cluster.node=H"], ["cluster.node=G"]] }], gpus: [8] }), /GPUs8 GPUs/);

// The verdict of a comparison: another policy's sure gain in another figure; the certainty of prices by its kinds.
const definitions = { requests_per_s: { unit: "1/s", text: "", better: "higher" }, ttft_mean_ms: { unit: "ms", text: "", better: "lower" }, itl_mean_ms: { unit: "ms", text: "", better: "lower" }, tpot_mean_ms: { unit: "ms", text: "", better: "lower" } };
const key_figures = [["throughput", "requests_per_s", "served"], ["latency", "ttft_mean_ms", "TTFT"], ["latency", "itl_mean_ms", "ITL"], ["latency", "tpot_mean_ms", "TPOT"]];
const run = (policy, itl, apart) => ({ folder: policy, compared: { policy, over_seeds: { itl_mean_ms: { mean: itl, difference: { mean: itl - 20, interval95: apart } }, requests_per_s: { mean: 5, difference: { mean: 0, interval95: [-1, 1] } }, ttft_mean_ms: { mean: 9, difference: { mean: 0, interval95: [-1, 1] } }, tpot_mean_ms: { mean: 9, difference: { mean: 0, interval95: [-1, 1] } } } },
  summary: { policy, throughput: { requests_per_s: 5 }, latency: {}, kv: { kv_lost_to_copies_share: 0 }, requests: { completed_requests: 1 }, time_by_origin: { measured_share: 0.5, interpolated_share: 0.1, extrapolated_share: 0.1, spec_sheet_share: 0.05, declared_share: 0.25 } } });
const compared = { compared_with: "plain", seeds: [1, 2], ranking_rule: "By requests/s.", runs: [] };
const said = (itl, apart) => page({ definitions, key_figures }, ["verdictOf"]).verdictOf([run("plain", 20, [0, 0]), run("fast", itl, apart)], compared).textContent;
assert.match(said(18, [-2.5, -1.5]), /^plain, .*comes first; fast does better in another figure, ITL mean \(−10\.0 % ± 2\.5\)\.WhyBy requests\/s\./);  // -2 +- 0.5 of 20
assert.match(said(18, [-5, 1]), /^No policy does better than plain/);
const bounded = run("perfect", 10, [-10, -10]);
bounded.compared.bound = true;
assert.match(page({ definitions, key_figures }, ["verdictOf"]).verdictOf([run("plain", 20, [0, 0]), bounded], compared).textContent, /^No policy does better than plain/);
assert.match(said(18, [-5, 1]), /60 % of the step time .* measured, 15 % is extrapolated or from data sheets, 25 % is declared/);

// Requests that failed come first: of two runs and of one.
const lossy = run("lossy", 20, [0, 0]), whole = run("whole", 20, [0, 0]);
lossy.summary.requests = { completed_requests: 90, failed_requests: 210, offered_requests: 300 };
const lost = (runs, comparison) => page({ definitions, key_figures }, ["verdictOf"]).verdictOf(runs, comparison).textContent;
assert.match(lost([lossy]), /^lossy: 210 of 300 requests failed with lost hardware; latencies are of the others\.lossy serves/);
assert.match(lost([whole, lossy], { ...compared, compared_with: "whole" }), /^lossy: 210 of 300 requests failed .* others\.No policy/);
assert.doesNotMatch(lost([whole]), /failed/);

// ITL p99 has no interval over seeds: its difference of the first seed, 11 less 20, is told of one seed alone.
const firstSeedOf = (seeds) => {
  const runs = [run("plain", 20, [0, 0]), run("fast", 20, [-1, 1])], own = { definitions: { ...definitions, itl_p99_ms: { unit: "ms", text: "", better: "lower" } }, key_figures: [...key_figures, ["latency", "itl_p99_ms", "ITL p99"]] };
  runs.forEach(({ summary, compared }, i) => { summary.latency = { ttft_mean_ms: 9, itl_mean_ms: 20, tpot_mean_ms: 9, itl_p99_ms: [20, 11][i] }; if (seeds === 1) delete compared.over_seeds; });
  return page(own, ["verdictOf"]).verdictOf(runs, { ...compared, seeds }).textContent;
};
assert.match(firstSeedOf(1), /fast does better in another figure, ITL p99 \(−45\.0 %\)/);
assert.match(firstSeedOf(2), /^No policy does better than plain/);

// The table of latencies is of single runs, and says so where the key figures above are means over seeds.
const latencies = (seeds) => {
  const { latencySection, main } = page({ definitions, quantiles: {} }, ["latencySection", "main"]);
  latencySection([run("plain", 20, [0, 0])], { ...compared, seeds });
  return main.textContent;
};
assert.match(latencies(2), /Of the run of the first seed/);
assert.doesNotMatch(latencies(1), /first seed/);

// Over seeds one page has one balance: the mean, in the table with its interval and in the reason; what is of one seed says so.
const seeded = (policy, balance, [low, high], experts) => ({ folder: policy, compared: { policy, over_seeds: { ...run(policy, 20, [0, 0]).compared.over_seeds, requests_per_s: { mean: experts, difference: { mean: 1, interval95: [0.9, 1.1] } }, balancedness_mean: { mean: balance, interval95: [low, high] } } },
  summary: { ...run(policy, 20).summary, latency: {}, balancedness: { balancedness_mean: 0.111 }, kv: { kv_lost_to_copies_share: 0, kv_tokens_per_rank: 7 }, time_by_part: { experts_s: 1 / experts }, time_by_origin: {} } });
const balanceFigures = { definitions: { ...definitions, balancedness_mean: { unit: "", text: "" } }, key_figures: [...key_figures, ["balancedness", "balancedness_mean", "Balance"], ["kv", "kv_tokens_per_rank", "KV room"]] };
const ofSeeds = (name) => page(balanceFigures, [name])[name]([seeded("fast", 0.9, [0.88, 0.92], 4), seeded("plain", 0.5, [0.49, 0.51], 2)], { ...compared, seeds: [1, 2] }).textContent;
assert.match(ofSeeds("verdictOf"), /with plain, both under the first seed; balance 0\.500 to 0\.900/);
assert.match(ofSeeds("resultsTable"), /Means over 2 seeds; of the first seed alone: KV room\..*0\.900 ± 0\.020.*0\.500 ± 0\.010/);

// A split gain: what is switched off, in the order in which it is (gain_split.cpp), and an interaction only where there is one.
const part = (name) => ({ part: name, requests_per_s: 1, share: 0.1 }), splitWords = (split) => page({ definitions }, ["gainSplitTable"]).gainSplitTable([{ policy: "a", parts: [part("dispatch")], whole: part("whole"), ...split }]).textContent;
assert.match(splitWords({}), /planning again, KV room, steps, choice of copy, copies, placement; the parts add up to the whole, but for those below 0\.05 %, which are written as 0\.(?!.*interaction)/);
assert.match(splitWords({ interaction: part("choice x KV room") }), /The interaction is/);

// The verdict of a sweep: means over seeds, not the luckiest seed; nothing that no deployment can have; the terminal's words.
const results = { "results.csv": "point,n,seed,policy,requests_per_s\n0,1,1,a,9\n1,1,1,a:kv_free,20\n2,1,2,a,1\n3,1,2,a:kv_free,20\n4,2,1,a,6\n5,2,1,a:kv_free,20\n6,2,2,a,6\n7,2,2,a:kv_free,20\n" };
const sweep = { axes: [{ key: "n", values: ["1", "2"] }, { key: "seed", values: ["1", "2"] }], policies: ["a", "a:kv_free"], not_for_use: ["a:kv_free"] };
const best = (files) => {
  const { sweepVerdict, csvFile } = page({ definitions, files }, ["sweepVerdict", "csvFile"]);
  return sweepVerdict("", sweep, csvFile("results.csv"), ["requests_per_s", "ttft_mean_ms"].filter((name) => files["results.csv"].includes(name))).textContent;
};
assert.match(best(results), /^Highest served request rate: 6\/s at n 2, a\./);
assert.doesNotMatch(best(results), /not compared/);
const oneFailed = results["results.csv"].replace("policy,", "policy,error,").replaceAll(/^(\d,\d,\d,[^,]+),/gm, "$1,,").replace("a,,1\n", "a,no fit,\n");  // point 2, of n 1
assert.match(best({ "results.csv": oneFailed }), /1 of 8 points failed and are not compared.*Highest served request rate: 9\/s at n 1, a\./);
const keepingUp = (overloaded) => ({ "results.csv": `point,n,seed,policy,overloaded,offered_requests_per_s,requests_per_s,ttft_mean_ms\n0,1,1,a,0,5,4.98,90\n1,2,1,a,${overloaded},5,4.97,80\n` });
assert.match(best(keepingUp(0)), /^Every point serves what is offered; lowest .*80.* at n 2, a\./);
assert.match(best(keepingUp(1)), /Highest served request rate: 4\.98\/s at n 1, a\./);
const tail = "point,n,seed,policy,overloaded,offered_requests_per_s,requests_per_s,ttft_mean_ms\n0,1,1,eplb,0,10,8.5,80\n1,1,1,base,0,10,9,80\n";
assert.match(best({ "results.csv": tail }), /^No point is overloaded; at least 85 % of the rate offered is served.*; lowest TTFT mean: 80 ms at n 1, base\./);
assert.match(best({ "results.csv": tail.replaceAll("10,", "9,").replace("8.5", "8.9") }), /^Every point serves what is offered; lowest/);
assert.match(best({ ...results, "verdict.txt": "Highest rate: so.\n" }), /^Highest rate: so\./);
assert.match(best({ "results.csv": "point,n,seed,policy,requests_per_s,failed_requests\n0,1,1,a,9,3\n1,2,1,a,8,0\n" }), /^1 of 2 points lost requests with hardware: their latencies are of the others\.Highest/);

// Student's t of 11 degrees of freedom, beyond the table: 2.201. Of 12 values 0 and 1 in turn: deviation sqrt(3 / 11).
const { meanOf } = page({}, ["meanOf"]), twelve = meanOf(Array.from({ length: 12 }, (_, i) => i % 2));
assert.ok(Math.abs(twelve.high - 0.5 - 2.201 * Math.sqrt(3 / 11 / 12)) < 1e-4);

// As demand grows: the answer may be of all instances behind their router, the points beyond are of one.
const grows = (whole) => page({ definitions }, ["capacityWhatIfs"]).capacityWhatIfs({ demand_slo: "ttft.p99<2s", deployments: [{ ttft_p99_ms: 1, tpot_p99_ms: 1, run_as_a_whole: whole }],
  what_ifs: [{ what_if: "demand +10 %", growth_share: 0.1, ttft_p99_ms: 2, tpot_p99_ms: 2, holds: 1 }] }).map((node) => node.textContent).join();
assert.match(grows(1), /At 0: all instances behind their router/);
assert.doesNotMatch(grows(0), /all instances/);

// Bars stand at their names: "and" alone is no sign of prefill and decode apart, and no name is there twice.
const rented = ["2 instances of 1 node with attention TP 8 and EP 1", "1 prefill instance of 1 node with attention TP 8 and 2 decode instances of 1 node with attention TP 8", "1 instance of 1 node with attention TP 8"];
assert.equal(page({}, ["deploymentNames"]).deploymentNames(rented.map((pools) => ({ node: "n", pools }))).join("; "), "n; n, P/D; n (3)");
// The unit of a figure stands once in a heading.
const units = { usd_per_hour: "USD/h", usd_per_node_hour: "USD/h", usd_per_million_tokens: "USD", watts: "W", joules_per_token: "J" };
const { wordsOf } = page({ definitions: Object.fromEntries(Object.entries(units).map(([name, unit]) => [name, { unit, text: "" }])) }, ["wordsOf"]);
assert.equal(Object.keys(units).map(wordsOf).join("; "), "cost; cost per node; cost per million tokens; power; energy per token");

// One vocabulary: the table of a search says which policy the answer's words mean; the head of a comparison has ITL, as the terminal.
const { goodputTable } = page({ definitions }, ["goodputTable"]), searched = (policy) => ({ policy, slo_requests_per_s: 1 });
assert.match(goodputTable({ method: { seeds: 1 }, compared_with: "contiguous", policies: ["contiguous", "base", "eplb"].map(searched) }, true, "eplb").textContent, /contiguousload balancing off.*baseplacement alone.*★ eplb/);
assert.match(lost([whole]), /mean TTFT of \S+ ms and a mean ITL of/);

// Marks are explained where they are drawn: the probe at 9/s is far above 1.5 x 2/s.
const { probesNote } = page({}, ["probesNote"]), probe = (rate, stable, seed = "1") => ({ rate, stable, seed });
assert.equal(probesNote([probe(2, true), probe(9, false)], []), "A colour per policy. Rates far above every steady one are in the tables alone.");
assert.equal(probesNote([probe(2, true), probe(2.5, false, "2")], [{}]), "A colour per policy, a dash per seed. Stars are knees. Crosses are rates at which the run was not steady.");

// A policy has its own colour on every page, whatever stands beside it; no two series of a page have one.
const tones = (...names) => { const { seePolicies, toneOf } = page({}, ["seePolicies", "toneOf"]); seePolicies(names); return [...names, "another"].map(toneOf); };
const [compareTones, goodputTones] = [tones("mine", "eplb", "base"), tones("base", "contiguous", "eplb", "eplb:kv_free")];
assert.deepEqual([compareTones[1], compareTones[2]], [goodputTones[2], goodputTones[0]]);
for (const all of [compareTones, goodputTones]) assert.equal(new Set(all).size, all.length);

// The charts of a reproduction are named in words.
const figures = { rows: [["a", "p", "near_knee", "itl_mean_ms", 1]], texts: (name) => [figures.rows[0][["setup", "policy", "study", "metric"].indexOf(name)]], numbers: () => [1] };
assert.equal(page({ definitions }, ["setupBars"]).setupBars(figures, ["p"], "near_knee", "itl_mean_ms").title, "ITL mean: near knee");
assert.equal(page({ definitions }, ["el"]).el("p", {}, "5 % of 7 %").parts[0], "5\u00a0% of 7\u00a0%");  // no line break between them
assert.equal(page({ definitions }, ["percent"]).percent(-0.0002), "0.0 %");
assert.equal(page({ definitions }, ["percent"]).percent(-0.002), "−0.2 %");
