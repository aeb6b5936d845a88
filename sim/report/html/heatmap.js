// Maps of cells: colour by value, read out on hover and with the arrow keys.

// Around a mean of 1 the colours diverge, half and double equally far from it; elsewhere they grow in lightness (viridis),
// so that they also print in grey.
const colourScale = (spec, low, high) => {
  if (!spec.diverging) return d3.scaleSequential(d3.interpolateViridis).domain([low, high]);
  const most = Math.max(high, 1 / Math.max(low, 0.05), 1.05);
  const toShare = d3.scaleLog().domain([1 / most, most]).range([1, 0]).clamp(true);
  const scale = (v) => d3.interpolateRdBu(toShare(Math.max(v, 1e-9)));
  scale.domain = () => [1 / most, most];
  return scale;
};

const range = (values) => {
  const [low, high] = d3.extent(values.filter(Number.isFinite));
  return low === undefined ? [0, 1] : [low, high];
};

// At most `most` labels, evenly picked.
const ticks = (count, most) => {
  const step = Math.max(1, Math.ceil(count / most));
  return d3.range(0, count, step);
};

// The colours with their values, above the map.
const drawScale = (svg, spec, fill, low, high) => {
  const { text, faint } = ink(), bar = 160, [from, to] = spec.diverging ? fill.domain() : [low, high], group = d3.select(svg).append("g").attr("class", "scale");
  const label = (x, anchor, words) => group.append("text").attr("x", x).attr("y", 13).attr("text-anchor", anchor).attr("fill", faint).text(words);
  const start = widthOf(shown(from)) + 8, at = spec.diverging ? (share) => from * (to / from) ** share : (share) => from + (to - from) * share;
  for (let i = 0; i < 40; ++i) group.append("rect").attr("x", start + (i * bar) / 40).attr("y", 3).attr("width", bar / 40 + 0.5).attr("height", 12).attr("fill", fill(at((i + 0.5) / 40)));
  label(start - 6, "end", shown(from));
  label(start + bar + 6, "start", `${shown(to)}  ${spec.valueName}`).attr("fill", text);
  if (spec.diverging) label(start + bar / 2, "middle", "1").attr("fill", "#1b1f24");
};

const drawMap = (svg, spec, low, high, width) => {
  const { faint, text } = ink(), fill = colourScale(spec, low, high), top = 24;
  const left = d3.max(spec.rows, (row) => widthOf(String(row))) + 24, across = width - left;
  const w = across / spec.columns.length, h = Math.max(paper ? 3 : 5, Math.min(spec.cells ? 30 : 18, (paper ? 290 : 420) / spec.rows.length)), height = h * spec.rows.length;
  drawScale(svg, spec, fill, low, high);
  const map = d3.select(svg).append("g").attr("transform", `translate(${left},${top})`);
  const cells = map.append("g").attr("shape-rendering", "crispEdges");
  spec.values.forEach((row, r) => {
    for (let c = 0; c < row.length;) {  // neighbours of one colour are drawn as one
      const paint = Number.isFinite(row[c]) ? fill(row[c]) : null;
      let end = c + 1;
      while (end < row.length && (Number.isFinite(row[end]) ? fill(row[end]) : null) === paint) ++end;
      if (paint) cells.append("rect").attr("x", c * w).attr("y", r * h).attr("width", (end - c) * w).attr("height", h).attr("fill", paint);
      c = end;
    }
  });
  if (spec.cells) {
    spec.values.forEach((row, r) => row.forEach((v, c) => {
      if (!Number.isFinite(v) || widthOf(shown(v)) + 6 > w) return;
      map.append("text").attr("x", (c + 0.5) * w).attr("y", (r + 0.5) * h).attr("dy", "0.35em").attr("text-anchor", "middle").attr("fill", d3.hsl(fill(v)).l > 0.5 ? "#000" : "#fff").text(shown(v));
    }));
  }
  const label = (x, y, anchor, words) => map.append("text").attr("x", x).attr("y", y).attr("text-anchor", anchor).attr("fill", faint).text(words);
  for (const r of ticks(spec.rows.length, Math.max(2, Math.floor(height / 14)))) label(-5, r * h + h / 2 + 4, "end", spec.rows[r]);
  for (const c of ticks(spec.columns.length, Math.min(16, Math.floor(across / 40)))) label((c + 0.5) * w, height + 15, "middle", spec.columns[c]);
  label(across / 2, height + 32, "middle", spec.columnName).attr("fill", text);
  label(0, 0, "middle", spec.rowName).attr("fill", text).attr("transform", `translate(${12 - left},${height / 2})rotate(-90)`);
  const cursor = map.append("rect").attr("class", "cursor").attr("width", w).attr("height", h).attr("visibility", "hidden");
  return { w, h, left, top, height, cursor, total: top + height + 38 };
};

// Reads a map out: under the mouse, and cell by cell with the arrow keys. `last()` is what drawMap gave last.
const readMap = (svg, spec, readout, last) => {
  let at = [0, 0];
  const look = (r, c) => {
    const { w, h, cursor } = last();
    at = [Math.max(0, Math.min(spec.rows.length - 1, r)), Math.max(0, Math.min(spec.columns.length - 1, c))];
    cursor.attr("x", at[1] * w).attr("y", at[0] * h).attr("visibility", "visible");
    readout.textContent = `${spec.rowName} ${spec.rows[at[0]]}, ${spec.columnName} ${spec.columns[at[1]]}: ${shown(spec.values[at[0]][at[1]])}`;
  };
  svg.addEventListener("mousemove", (event) => {
    const { w, h, left, top, height } = last(), box = svg.getBoundingClientRect(), x = event.clientX - box.left - left, y = event.clientY - box.top - top;
    if (x >= 0 && y >= 0 && y < height) look(Math.floor(y / h), Math.floor(x / w));
  });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) { event.preventDefault(); look(at[0] + move[0], at[1] + move[1]); }
  });
};

// {title, note, term, rowName, columnName, valueName, rows: labels, columns: labels, values: [row][column], low, high,
// diverging: around 1, cells: values are written into them}
const heatmap = (spec) => {
  const [low, high] = spec.low === undefined ? range(spec.values.flat()) : [spec.low, spec.high];
  const readout = el("div", { class: "readout", "aria-live": "polite" });
  const data = { names: [spec.rowName, spec.columnName, spec.valueName], rows: spec.rows.flatMap((r, i) => spec.columns.map((c, j) => [r, c, spec.values[i][j]])) };
  let last = null;
  const figure = drawing({ ...spec, data, svgClass: "heat", label: `${spec.title}: ${spec.valueName} by ${spec.rowName} and ${spec.columnName}, from ${shown(low)} to ${shown(high)}. Arrow keys move the readout.` },
    (svg, width) => (last = drawMap(svg, spec, low, high, width)).total, readout);
  readMap(figure.querySelector("svg"), spec, readout, () => last);
  return figure;
};
