// A plan: how many copies each layer and expert has, what that does for balance, and for CRAFT why.

const planSections = (path) => {
  const plan = jsonFile(path);
  setTitle(`Plan of ${plan.policy} for ${plan.num_layers} layers of ${plan.num_experts} experts on ${plan.num_gpus} GPUs`);
  const layers = plan.balancedness_before.map((_, l) => l);
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const copies = plan.logcnt.map((row) => row.reduce((a, b) => a + b, 0) - row.length);
  section("The plan",
    el("div", { class: "tiles" }, ...[["Policy", plan.policy], ["GPUs", plan.num_gpus], ["Layers", plan.num_layers], ["Experts per layer", plan.num_experts],
      ["Extra copies, all layers", copies.reduce((a, b) => a + b, 0)], ["Balancedness before", mean(plan.balancedness_before)], ["Balancedness after", mean(plan.balancedness_after)]]
      .map(([name, value]) => el("div", { class: "tile" }, el("b", {}, shown(value)), el("span", {}, name)))));
  const series = [["before", plan.balancedness_before], ["after", plan.balancedness_after], ["previous plan", plan.balancedness_previous]].filter(([, values]) => values);
  section("Balance and copies", el("div", { class: "grid" },
    lines({ title: "Balancedness by layer", x: "MoE layer", xName: "layer", y: "mean / max GPU load", yName: "balancedness", seriesName: "plan", note: "On the loads that the plan was made from; before is experts in order, no copies." },
      series.map(([name, values]) => ({ label: name, x: layers, y: values }))),
    chart({ type: "bar", title: "Extra copies by layer", x: "MoE layer", y: "copies", labels: layers, datasets: [{ label: "extra copies", data: copies }],
            data: { names: ["layer", "extra_copies"], rows: layers.map((l) => [l, copies[l]]) } })),
    heatmap({ title: "Copies of every expert", note: "Physical experts of each logical one.", rowName: "layer", columnName: "expert", valueName: "copies",
              rows: layers, columns: plan.logcnt[0].map((_, e) => e), values: plan.logcnt }));
  const bytes = plan.memory_per_gpu_bytes;
  section("Memory", bytes ? chart({ type: "bar", title: "Routed experts on each GPU", x: "GPU", y: "GiB", labels: bytes.map((_, g) => g), datasets: [{ label: "routed experts", data: bytes.map((b) => b / 2 ** 30) }],
      data: { names: ["gpu", "memory_bytes"], rows: bytes.map((b, g) => [g, b]) } })
    : absent("The request names no model, so the plan does not say what an expert takes."));
  gainSection(plan, layers);
};

// The estimated gain of each number of copies that was tried, layer by layer, and what was chosen from it.
const gainSection = (plan, layers) => {
  const why = plan.craft;
  if (!why) { section("Gain curves", absent("Only plans of the policy craft have gain curves.")); return; }
  const node = section("Gain curves", el("p", {}, `Replication factor ${why.replication_factor}: extra copies per GPU over all layers.`));
  const chosenOf = (l) => why.copy_counts.findIndex((count) => count === why.layer_copies[l]);
  if (why.factors.length > 0) {
    node.append(lines({ title: "Mean gain by replication factor", x: "replication factor", xName: "replication_factor", y: "gain in balancedness", yName: "gain", seriesName: "curve" },
      [{ label: "mean over layers", x: why.factors, y: why.factor_gains }]));
  }
  node.append(lines({ title: "Gain by number of copies, every layer", near: true, tall: true, x: "extra copies of the layer", xName: "copies", y: "gain in balancedness", yName: "gain", seriesName: "layer" },
    layers.map((l) => ({ label: "layer " + l, x: why.copy_counts, y: why.gains.map((row) => row[l]), sizes: why.copy_counts.map((_, c) => (c === chosenOf(l) ? 7 : 0)),
                         style: { colour: d3.interpolateViridis(l / layers.length), unlisted: true, mark: d3.symbolCircle, dash: "", thick: 1 } }))),
    table("Chosen copies", [{ name: "layer", label: "MoE layer" }, { name: "copies" }, { name: "gain" }],
      layers.map((l) => [l, why.layer_copies[l], chosenOf(l) < 0 ? 0 : why.gains[chosenOf(l)][l]]), { long: true, note: "A large point in the chart above is what was chosen." }));
};
