// Charts with their title, unit, data and export. Drawn anew when the colours change.

// Twelve colours, as many as a GPU's memory has items. Found by a search for the largest least distance (OKLab, also as
// seen without red or green cones) among colours that stand out from both backgrounds; the first ones differ the most.
const palette = ["#0979ac", "#f98729", "#b32b26", "#9c72dc", "#01b2c7", "#9b7318", "#039264", "#96287f", "#5844b1", "#1f6603", "#665852", "#6dba60"];
const colour = (i) => palette[i % palette.length];
// A policy has one colour, mark and dash in all charts of the report: those of its place in this list.
const policiesSeen = [];
const seePolicies = (names) => { for (const name of names) if (!policiesSeen.includes(name)) policiesSeen.push(name); };
const toneOf = (name, otherwise) => (policiesSeen.includes(name) ? policiesSeen.indexOf(name) : otherwise);
const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const marks = ["circle", "rect", "triangle", "rectRot", "cross", "star"];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const drawn = [];  // how to draw each chart again

const exportCanvas = (canvas, name) => {
  const copy = el("canvas", { width: canvas.width, height: canvas.height });
  const pen = copy.getContext("2d");
  pen.fillStyle = css("--back");
  pen.fillRect(0, 0, copy.width, copy.height);
  pen.drawImage(canvas, 0, 0);
  copy.toBlob((blob) => save(name + ".png", blob), "image/png");
};

const axis = (title, more = {}) => ({
  title: { display: true, text: title, color: css("--text") },
  ticks: { color: css("--faint"), autoSkip: true, maxRotation: 60 },
  grid: { color: css("--grid") },
  ...more,
});

// spec: {title, note, type, x, y, labels, datasets, data: {names, rows}, stacked, horizontal, log, category, tall, most}, the
// datasets as in Chart.js (`unlisted`: not in the legend; `tone`: which colour, mark and dash, else the policy's, else by
// position). Stacked bars have seams in the colour behind them.
const styled = (spec) => spec.datasets.map((set, i) => {
  const tone = set.tone ?? toneOf(set.label, i), bar = spec.type === "bar";
  return { borderColor: bar ? css("--panel") : colour(tone), backgroundColor: colour(tone),
           borderWidth: bar ? (spec.stacked ? { [spec.horizontal ? "right" : "top"]: 1 } : 0) : 2, borderSkipped: bar && spec.stacked ? false : "start",
           pointStyle: marks[tone % marks.length], borderDash: bar ? [] : dashes[Math.floor(tone / palette.length) % dashes.length],
           pointRadius: 3, spanGaps: false, ...set };
});

const config = (spec) => {
  const x = axis(spec.x, { stacked: !!spec.stacked, type: spec.type === "line" && !spec.category ? "linear" : "category" });
  const y = axis(spec.y, { stacked: !!spec.stacked, type: spec.log ? "logarithmic" : "linear", beginAtZero: !spec.log && spec.type === "bar", max: spec.most });
  if (spec.type === "line" && !spec.category) delete x.stacked;
  return {
    type: spec.type,
    data: { labels: spec.labels, datasets: styled(spec) },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, devicePixelRatio: paper ? 2 : undefined, indexAxis: spec.horizontal ? "y" : "x",
      interaction: { mode: spec.near ? "nearest" : "index", intersect: !!spec.near, axis: spec.horizontal ? "y" : "x" },
      scales: spec.horizontal ? { x: { ...y }, y: { ...x } } : { x, y },
      plugins: {
        legend: { display: spec.datasets.length > 1, labels: { color: css("--text"), usePointStyle: spec.type === "line", boxWidth: spec.type === "line" ? 6 : 12, boxHeight: spec.type === "line" ? 6 : 10,
                  filter: (item, data) => !data.datasets[item.datasetIndex].unlisted } },
        tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${shown(spec.horizontal ? item.parsed.x : item.parsed.y)}` } },
      },
    },
  };
};

const chart = (spec) => {
  const canvas = el("canvas", { role: "img", "aria-label": `${spec.title}. ${spec.note ?? ""} The data is in the table below it.` });
  const name = fileName(spec.title);
  const tools = el("div", { class: "tools" }, ...(spec.controls ?? []),
    el("button", { type: "button", onclick: () => saveCsv(name + ".csv", spec.data.names, spec.data.rows) }, "CSV"),
    el("button", { type: "button", onclick: () => exportCanvas(canvas, name) }, "PNG"));
  const heading = spec.term ? el("h3", {}, term(spec.title, spec.term)) : el("h3", {}, spec.title);
  const figure = el("figure", { class: "drawn" },
    el("figcaption", {}, el("div", {}, heading, spec.note ? el("p", {}, spec.note) : null), tools),
    el("div", { class: spec.tall ? "canvas tall" : "canvas" }, canvas), dataBelow(spec.title, spec.data.names, spec.data.rows));
  let live = null;
  drawn.push(() => {
    if (live) live.destroy();
    live = canvas.isConnected ? new Chart(canvas, config(spec)) : null;
  });
  return figure;
};

// A chart whose content follows selects: `make(values)` gives the spec. selects: [{label, options: [[value, text]], value}].
const chosenChart = (selects, make) => {
  const place = el("div");
  const inputs = selects.map((select) => el("select", { "aria-label": select.label, onchange: () => update(true) },
    ...select.options.map(([value, text]) => el("option", { value, selected: value === select.value }, text))));
  const controls = el("div", { class: "tools" }, ...inputs.map((input, i) => el("label", {}, selects[i].label + " ", input)));
  const update = (again) => {
    place.replaceChildren(chart(make(inputs.map((input) => input.value))));
    if (again) drawn[drawn.length - 1]();
  };
  update(false);
  return el("div", {}, controls, place);
};

const redraw = () => drawn.forEach((draw) => draw());

// Lines over numbered things (layers, GPUs): one per series, {label, x, y}.
const lines = (spec, series) => {
  const datasets = series.map((one) => ({ label: one.label, data: one.x.map((x, i) => ({ x, y: one.y[i] })), ...(one.style ?? {}) }));
  const rows = series.flatMap((one) => one.x.map((x, i) => [one.label, x, one.y[i]]));
  return chart({ type: "line", ...spec, datasets, data: { names: [spec.seriesName ?? "policy", spec.xName, spec.yName], rows } });
};
