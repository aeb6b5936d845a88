// Maps of cells as SVG: colour by value, read out on hover and with the arrow keys.

const svgEl = (tag, attributes = {}, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

// Anchors of the colour map viridis, dark to light; it grows in lightness, so that it also prints in grey.
const ramp = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const shade = (share) => {
  const at = Math.max(0, Math.min(1, share)) * (ramp.length - 1), low = Math.min(Math.floor(at), ramp.length - 2);
  return "rgb(" + ramp[low].map((v, i) => Math.round(v + (ramp[low + 1][i] - v) * (at - low))).join(",") + ")";
};

const range = (values) => {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  return low <= high ? [low, high] : [0, 1];
};

// At most `most` labels, evenly picked.
const ticks = (count, most) => {
  const step = Math.max(1, Math.ceil(count / most));
  return [...Array(count).keys()].filter((i) => i % step === 0);
};

// Rectangles of neighbours with one colour are drawn as one.
const cells = (spec, low, high, w, h, left) => {
  const group = svgEl("g", { "shape-rendering": "crispEdges" });
  const span = high > low ? high - low : 1;
  spec.values.forEach((row, r) => {
    for (let c = 0; c < row.length;) {
      const fill = Number.isFinite(row[c]) ? shade((row[c] - low) / span) : null;
      let end = c + 1;
      while (end < row.length && (Number.isFinite(row[end]) ? shade((row[end] - low) / span) : null) === fill) ++end;
      if (fill) group.append(svgEl("rect", { x: left + c * w, y: r * h, width: (end - c) * w, height: h, fill }));
      c = end;
    }
  });
  return group;
};

// The map at a width in pixels, so that its labels have the size of text whatever the screen. Two maps fit on a page of paper.
const mapLeft = 34;
const drawMap = (svg, spec, low, high, width) => {
  const w = (width - mapLeft) / spec.columns.length, h = Math.max(paper ? 3 : 5, Math.min(18, (paper ? 290 : 420) / spec.rows.length)), height = h * spec.rows.length;
  const label = (x, y, anchor, text) => svgEl("text", { x, y, "text-anchor": anchor }, String(text));
  const cursor = svgEl("rect", { class: "cursor", width: w, height: h, visibility: "hidden" });
  svg.setAttribute("viewBox", `0 0 ${width} ${height + 34}`);
  svg.replaceChildren(cells(spec, low, high, w, h, mapLeft),
    ...ticks(spec.rows.length, Math.max(2, Math.floor(height / 14))).map((r) => label(mapLeft - 4, r * h + h / 2 + 4, "end", spec.rows[r])),
    ...ticks(spec.columns.length, Math.min(16, Math.floor((width - mapLeft) / 40))).map((c) => label(mapLeft + (c + 0.5) * w, height + 13, "middle", spec.columns[c])),
    label(mapLeft + (width - mapLeft) / 2, height + 30, "middle", spec.columnName), cursor);
  return { w, h, height, width, cursor, paper };
};

// A saved map stands alone, so it gets its title and its scale above.
const savedAbove = 52;
const scaleOf = (spec, low, high) => {
  const label = (x, y, text) => svgEl("text", { x, y }, text), bar = 120, from = mapLeft + 70;
  const stops = ramp.map((c, i) => svgEl("stop", { offset: i / (ramp.length - 1), "stop-color": `rgb(${c.join(",")})` }));
  return [svgEl("defs", {}, svgEl("linearGradient", { id: "scale" }, ...stops)), label(mapLeft, -38, spec.title),
    svgEl("text", { x: from - 6, y: -14, "text-anchor": "end" }, shown(low)), svgEl("rect", { x: from, y: -24, width: bar, height: 12, fill: "url(#scale)" }),
    label(from + bar + 6, -14, `${shown(high)} ${spec.valueName}, by ${spec.rowName} (down) and ${spec.columnName}`)];
};
const saveSvg = (svg, name, spec, low, high) => {
  const copy = svg.cloneNode(true), [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 ${-savedAbove} ${width} ${height + savedAbove}`);
  copy.prepend(...scaleOf(spec, low, high));
  copy.querySelectorAll("text").forEach((node) => { node.setAttribute("fill", "#555"); node.setAttribute("font-size", "11"); node.setAttribute("font-family", "sans-serif"); });
  copy.querySelectorAll(".cursor").forEach((node) => node.remove());
  save(name + ".svg", new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
};

// Reads a map out: under the mouse, and cell by cell with the arrow keys. `lastDrawn()` is what drawMap gave last.
const readOut = (svg, spec, readout, lastDrawn) => {
  let at = [0, 0];
  const look = (r, c) => {
    const { w, h, cursor } = lastDrawn();
    at = [Math.max(0, Math.min(spec.rows.length - 1, r)), Math.max(0, Math.min(spec.columns.length - 1, c))];
    cursor.setAttribute("x", mapLeft + at[1] * w);
    cursor.setAttribute("y", at[0] * h);
    cursor.setAttribute("visibility", "visible");
    readout.textContent = `${spec.rowName} ${spec.rows[at[0]]}, ${spec.columnName} ${spec.columns[at[1]]}: ${shown(spec.values[at[0]][at[1]])}`;
  };
  svg.addEventListener("mousemove", (event) => {
    const { w, h, height, width } = lastDrawn(), box = svg.getBoundingClientRect(), scale = width / box.width;
    const x = (event.clientX - box.left) * scale - mapLeft, y = (event.clientY - box.top) * scale;
    if (x >= 0 && y >= 0 && y < height) look(Math.floor(y / h), Math.floor(x / w));
  });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) { event.preventDefault(); look(at[0] + move[0], at[1] + move[1]); }
  });
};

// {title, note, term, rowName, columnName, valueName, rows: labels, columns: labels, values: [row][column], low, high}
const heatmap = (spec) => {
  const [low, high] = spec.low === undefined ? range(spec.values.flat()) : [spec.low, spec.high];
  const svg = svgEl("svg", { class: "heat", role: "img", tabindex: "0" });
  svg.setAttribute("aria-label", `${spec.title}: ${spec.valueName} by ${spec.rowName} and ${spec.columnName}, from ${shown(low)} to ${shown(high)}. Arrow keys move the readout.`);
  const readout = el("div", { class: "readout", "aria-live": "polite" });
  let last = null;
  const draw = () => {
    const width = Math.round(svg.getBoundingClientRect().width);
    if (width > 0 && (width !== last?.width || paper !== last.paper)) last = drawMap(svg, spec, low, high, width);
  };
  readOut(svg, spec, readout, () => last);
  drawn.push(draw);
  new ResizeObserver(draw).observe(svg);
  const name = fileName(spec.title);
  const rows = () => spec.rows.flatMap((r, i) => spec.columns.map((c, j) => [r, c, spec.values[i][j]]));
  const bar = el("i");
  bar.style.background = `linear-gradient(to right, ${ramp.map((c) => `rgb(${c.join(",")})`).join(",")})`;
  return el("figure", { class: "drawn" },
    el("figcaption", {}, el("div", {}, el("h3", {}, spec.term ? term(spec.title, spec.term) : spec.title), spec.note ? el("p", {}, spec.note) : null),
      el("div", { class: "tools" },
        el("button", { type: "button", onclick: () => saveCsv(name + ".csv", [spec.rowName, spec.columnName, spec.valueName], rows()) }, "CSV"),
        el("button", { type: "button", onclick: () => saveSvg(svg, name, spec, low, high) }, "SVG"))),
    el("div", { class: "scale" }, shown(low), bar, shown(high), " " + spec.valueName), svg, readout);
};
