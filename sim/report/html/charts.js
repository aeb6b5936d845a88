// Charts as SVG, drawn with D3 at the width that they have, and again when that width or the colours change.

// Colours of lines and bars that stand for policies, setups or other series: as many as a GPU's memory has items. Found by a
// search for the largest least distance (OKLab, also as seen without red or green cones) among colours that stand out from
// both backgrounds; the first ones differ the most.
const palette = ["#0979ac", "#f98729", "#b32b26", "#9c72dc", "#01b2c7", "#9b7318", "#039264", "#96287f", "#5844b1", "#1f6603", "#665852", "#6dba60"];
const dashes = ["", "6 3", "2 2", "8 3 2 3"];
const marks = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolCross, d3.symbolWye];
const colour = (tone) => palette[tone % palette.length];
// Parts of a whole (layer parts, memory items) have pale colours, which no series has, one each on the whole page.
const itemColours = [...d3.schemeSet3, ...d3.schemeSet2.filter((one) => one !== "#e78ac3")];
const itemsSeen = [];
const itemColour = (name) => { if (!itemsSeen.includes(name)) itemsSeen.push(name); return itemColours[itemsSeen.indexOf(name) % itemColours.length]; };

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const ink = () => ({ text: css("--text"), faint: css("--faint"), grid: css("--grid"), panel: css("--panel"), mark: css("--half") });
const drawn = [];  // how to draw each chart again
const redraw = () => drawn.forEach((draw) => draw());
const fontSize = 12, fontFamily = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const pen = document.createElement("canvas").getContext("2d");
const widthOf = (text) => { pen.font = `${fontSize}px ${fontFamily}`; return pen.measureText(text).width; };
const symbol = (type, area) => d3.symbol().type(type).size(area)();
const bodyOf = (svg) => d3.select(svg).attr("font-size", fontSize).attr("font-family", fontFamily);

// A saved chart stands alone: its title above it, the page's colour behind it.
const saveSvg = (svg, title) => {
  const copy = svg.cloneNode(true), [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number), above = 30;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 ${-above} ${width} ${height + above}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height + above);
  copy.querySelectorAll(".cursor").forEach((node) => node.remove());
  const top = d3.select(copy).insert("g", ":first-child");
  top.append("rect").attr("y", -above).attr("width", width).attr("height", height + above).attr("fill", ink().panel);
  top.append("text").attr("x", 8).attr("y", -10).attr("font-weight", 600).attr("font-size", 14).attr("fill", ink().text).text(title);
  save(fileName(title) + ".svg", new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
};

// A chart's frame: title, note, export as CSV and SVG, the picture that `draw(svg, width)` makes, and what stands below it.
const drawing = ({ title, term: name, note, label, data, svgClass = "" }, draw, ...below) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of [["class", ("chart " + svgClass).trim()], ["role", "img"], ["tabindex", "0"], ["aria-label", label]]) svg.setAttribute(key, value);
  let last = 0;
  const again = (force) => {
    const width = Math.round(svg.getBoundingClientRect().width);
    if (width === 0 || (!force && width === last)) return;
    last = width;
    bodyOf(svg).selectAll("*").remove();
    const height = draw(svg, width);
    d3.select(svg).attr("viewBox", `0 0 ${width} ${height}`);
  };
  drawn.push(() => again(true));
  new ResizeObserver(() => again(false)).observe(svg);
  return el("figure", { class: "drawn" },
    el("figcaption", {}, el("div", {}, el("h3", {}, name ? term(title, name) : title), note ? el("p", {}, note) : null),
      el("div", { class: "tools" },
        el("button", { type: "button", onclick: () => saveCsv(fileName(title) + ".csv", data.names, data.rows) }, "CSV"),
        el("button", { type: "button", class: "svg", onclick: () => saveSvg(svg, title) }, "SVG"))), svg, ...below);
};

// What a set of a chart looks like: {label, data, line, dash, mark, size, colour, item, unlisted}; `item`: a part of a whole.
const lookOf = (set) => {
  const tone = set.item || set.colour ? 0 : toneOf(set.tone ?? set.label);
  return { line: true, dash: dashes[Math.floor(tone / palette.length) % dashes.length], mark: marks[tone % marks.length], size: 5, thick: 2,
           ...set, colour: set.colour ?? (set.item ? itemColour(set.label) : colour(tone)) };
};

// Names of the sets above the plot, in as many lines as they need. Gives the height that they take.
const drawLegend = (svg, sets, bars, width) => {
  const listed = sets.filter((set) => !set.unlisted), { text, faint } = ink();
  if (listed.length < 2) return 8;
  let x = 4, y = 12;
  const group = d3.select(svg).append("g").attr("class", "legend");
  for (const set of listed) {
    const room = widthOf(set.label) + 34;
    if (x > 4 && x + room > width) { x = 4; y += 18; }
    const entry = group.append("g").attr("transform", `translate(${x},${y})`).attr("data-series", set.label).attr("data-colour", set.colour);
    if (bars) entry.append("rect").attr("y", -6).attr("width", 16).attr("height", 11).attr("fill", set.colour).attr("stroke", faint).attr("stroke-width", 0.5);
    else {
      entry.append("line").attr("x2", 18).attr("stroke", set.colour).attr("stroke-width", set.thick).attr("stroke-dasharray", set.dash);
      if (typeof set.mark !== "function") entry.append("path").attr("transform", "translate(9,0)").attr("d", symbol(set.mark, set.size * 9)).attr("fill", set.colour);
    }
    entry.append("text").attr("x", 22).attr("dy", "0.35em").attr("fill", text).text(set.label);
    x += room;
  }
  return y + 16;
};

const pointsOf = (spec, set) => set.data.map((one, i) => (typeof one === "object" && one !== null ? { x: spec.labels ? spec.labels[i] : one.x, ...one } : { x: spec.labels[i], y: one }))
  .filter((point) => Number.isFinite(point.y) && (!spec.log || point.y > 0));

// The scale of values: from zero unless it is logarithmic or the values differ by less than half, which the axis then says.
const valueScale = (spec, sets, room) => {
  const all = sets.flatMap((set) => set.points.flatMap((p) => [p.y, p.low, p.high])).concat((spec.rules ?? []).map((rule) => rule.y)).filter((v) => Number.isFinite(v));
  let [low, high] = d3.extent(all.length > 0 ? all : [0, 1]);
  if (sets.every((set) => set.points.every((p) => p.y >= 0))) low = Math.max(0, low);  // an interval may reach below
  if (spec.stacked) {
    const sums = new Map();
    for (const point of sets.flatMap((set) => set.points)) sums.set(point.x, (sums.get(point.x) ?? 0) + Math.max(0, point.y));
    high = Math.max(high, ...sums.values());
  }
  high = spec.most ?? high;
  if (spec.log) return d3.scaleLog().domain([low / 1.15, high * 1.15]).range(room);
  const fromZero = spec.type === "bar" || spec.zero || low <= 0.5 * high || low < 0;
  if (low === high) { high = high === 0 ? 1 : high * 1.1; }
  const scale = d3.scaleLinear().domain([fromZero ? Math.min(0, low) : low, Math.max(high, 0)]).range(room);
  scale.whole = spec.type === "bar" && all.every(Number.isInteger);
  return spec.most === undefined ? scale.nice(6) : scale;
};
const brief = (scale, count) => {
  const most = d3.max(scale.domain().map(Math.abs)), least = Math.abs(scale.domain()[0]);
  if (scale.base) return (v) => shown(v);
  return most >= 1e5 && (most - least) / most > 0.01 ? d3.format("~s") : scale.whole ? (v) => shown(v) : scale.tickFormat(count);
};
const valueTicks = (scale, count) => {
  if (!scale.base) return scale.ticks(count).filter((tick) => !scale.whole || Number.isInteger(tick));
  const ticks = scale.ticks().filter((v) => [1, 2, 5].includes(Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9))));
  return ticks.length >= 2 ? (ticks.length > count ? ticks.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-9) : ticks) : d3.ticks(...scale.domain(), 4);
};

const positionScale = (spec, sets, room) => {
  if (spec.type === "bar") return d3.scaleBand().domain(spec.labels).range(room).paddingInner(spec.labels.length > 40 ? 0.1 : 0.25).paddingOuter(0.1);
  if (spec.labels) return d3.scalePoint().domain(spec.labels).range(room).padding(0.5);
  const all = sets.flatMap((set) => set.points.map((p) => p.x)).concat((spec.rules ?? []).map((rule) => rule.x)).filter(Number.isFinite);
  const [low, high] = d3.extent(all.length > 0 ? all : [0, 1]);
  if (spec.logX && low > 0) return d3.scaleLog().domain([low, high]).range(room);
  const start = spec.zeroX ? Math.min(0, low) : low;
  const scale = d3.scaleLinear().domain(low === high ? [start - 0.5, high + 0.5] : [start, high]).range(room);
  scale.whole = all.every(Number.isInteger);
  return scale;
};
const positionTicks = (spec, scale, length) => {
  if (spec.xTicks) return spec.xTicks;
  if (scale.ticks) return valueTicks(scale, Math.max(2, Math.floor(length / 70)));
  const widest = d3.max(scale.domain(), (label) => widthOf(String(label))) ?? 0, step = spec.horizontal ? 1 : Math.max(1, Math.ceil((scale.domain().length * (widest + 10)) / length));
  // Names are all written, slanted where they lack room; numbers may be left out.
  return step > 1 && scale.domain().every((label) => Number.isFinite(Number(label))) ? scale.domain().filter((_, i) => i % step === 0) : scale.domain();
};

const drawAxis = (group, axis, size, grid) => {
  const { faint, grid: gridColour } = ink();
  group.call(axis.tickSizeOuter(0).tickSizeInner(4)).attr("font-size", fontSize).attr("font-family", null);
  group.selectAll("text").attr("fill", faint);
  group.selectAll("line, path").attr("stroke", gridColour);
  if (grid) group.selectAll(".tick line").clone().attr(size.key, size.length);
};

// Bars: side by side or stacked, with their value where a segment has room for it.
const drawBars = (plot, spec, sets, position, value) => {
  const inner = d3.scaleBand().domain(d3.range(sets.length)).range([0, position.bandwidth()]), { panel, text } = ink(), sums = new Map();
  sets.forEach((set, s) => set.points.forEach((point) => {
    const from = spec.stacked ? sums.get(point.x) ?? 0 : 0, to = from + point.y;
    if (spec.stacked) sums.set(point.x, to);
    const at = position(point.x) + (spec.stacked ? 0 : inner(s)), thick = spec.stacked ? position.bandwidth() : inner.bandwidth();
    const [a, b] = [value(Math.min(from, to)), value(Math.max(from, to))], [start, length] = [Math.min(a, b), Math.abs(a - b)];
    plot.append("rect").attr("fill", set.colour).attr("stroke", panel).attr("stroke-width", thick > 6 ? 0.7 : 0)
      .attr(spec.horizontal ? "x" : "y", start).attr(spec.horizontal ? "width" : "height", length).attr(spec.horizontal ? "y" : "x", at).attr(spec.horizontal ? "height" : "width", thick);
    point.px = spec.horizontal ? start + length : at + thick / 2;
    point.py = spec.horizontal ? at + thick / 2 : start;
    if (set.item && spec.horizontal && length > widthOf(set.label) + 8) {
      plot.append("text").attr("x", start + length / 2).attr("y", at + thick / 2).attr("dy", "0.35em").attr("text-anchor", "middle").attr("fill", "#1b1f24").text(set.label);
    }
    if (Number.isFinite(point.low)) drawInterval(plot, point.px, value(Math.max(point.low, value.domain()[0])), value(point.high), text);
  }));
};
const drawInterval = (plot, x, low, high, stroke) =>
  plot.append("path").attr("class", "interval").attr("d", `M${x - 4},${low}h8M${x},${low}V${high}M${x - 4},${high}h8`).attr("fill", "none").attr("stroke", stroke).attr("stroke-width", 1.3);

const drawLines = (plot, sets, position, value) => {
  for (const set of sets) {
    for (const point of set.points) { point.px = position(point.x); point.py = value(point.y); }
    if (set.line) {
      plot.append("path").attr("fill", "none").attr("stroke", set.colour).attr("stroke-width", set.thick).attr("stroke-dasharray", set.dash || null).attr("stroke-linejoin", "round")
        .attr("d", d3.line().x((p) => p.px).y((p) => p.py).curve(set.steps ? d3.curveStepAfter : d3.curveLinear)(set.points));
    }
    set.points.forEach((point, i) => {
      if (Number.isFinite(point.low)) drawInterval(plot, point.px, value(Math.max(point.low, value.domain()[0])), value(point.high), set.colour);
      const mark = point.mark ?? set.mark, size = point.size ?? set.size;
      if (size === 0 || (set.points.length > 80 && size <= 5 && set.line)) return;
      plot.append("path").attr("transform", `translate(${point.px},${point.py})${mark === cross ? "rotate(45)" : ""}`).attr("d", symbol(mark === cross ? d3.symbolCross : mark, size * size * 1.6))
        .attr("fill", point.hollow ? ink().panel : set.colour).attr("stroke", set.colour);
      if (point.text) plot.append("text").attr("x", point.px + 6).attr("y", point.py - 6).attr("fill", ink().faint).text(point.text);
    });
  }
};
const cross = "cross";  // a slanted cross: a point that is not steady

// Where a level line's name, so wide, stands clear of what is drawn, [x, above]: at the right where it can, else at the place
// with the fewest marks.
const clearPlace = (sets, at, wide, width) => {
  const segments = (set) => set.points.slice(1).flatMap((point, i) => d3.range(1, 8).map((k) => ({ px: d3.interpolateNumber(set.points[i].px, point.px)(k / 8), py: d3.interpolateNumber(set.points[i].py, point.py)(k / 8) })));
  const drawnAt = sets.flatMap((set) => [...set.points, ...(set.line ? segments(set) : [])]);
  const hits = ([x, above]) => d3.sum(drawnAt, (p) => p.px > x - wide - 8 && p.px < x + 8 && (above ? p.py < at + 6 && p.py > at - 24 : p.py > at - 6 && p.py < at + 24));
  const ends = [...d3.range(width - 4, wide + 4, -20), wide + 4];
  return d3.least([true, false].flatMap((above) => ends.map((x) => [x, above])), hits);
};

// Lines across the plot with their name: a bound, a knee. {x or y, label}
const drawRules = (plot, sets, rules, position, value, width, height) => {
  const { text } = ink();
  for (const rule of rules) {
    const isY = rule.y !== undefined, at = isY ? value(rule.y) : position(rule.x), stroke = rule.colour ?? text;
    plot.append("path").attr("class", "rule").attr("d", isY ? `M0,${at}H${width}` : `M${at},0V${height}`).attr("stroke", stroke).attr("stroke-dasharray", "7 4").attr("stroke-width", 1.4);
    const end = !isY && at > width / 2, [x, above] = isY ? clearPlace(sets, at, widthOf(rule.label), width) : [at + (end ? -5 : 5), true];
    plot.append("text").attr("x", x).attr("y", isY ? at + (above ? -5 : 14) : 11).attr("text-anchor", isY || end ? "end" : "start").attr("fill", stroke)
      .attr("paint-order", "stroke").attr("stroke", ink().panel).attr("stroke-width", 4).text(rule.label);
  }
};

// Reads the chart out under the mouse and, with the arrow keys, point by point: all series at one place, or the nearest point.
const readChart = (svg, spec, sets, margin, height) => {
  const points = sets.flatMap((set) => set.points.map((point) => ({ ...point, set }))), key = spec.horizontal ? "py" : "px";
  const stops = [...new Set(points.map((p) => p[key]))].sort((a, b) => a - b);
  let at = -1;
  const tell = (mine, x, y) => {
    const told = mine.slice(0, 12).map((p) => `${p.set.label}: ${shown(p.y)}${Number.isFinite(p.low) ? ` (${shown(p.low)} to ${shown(p.high)})` : ""}${p.about ? `, ${p.about}` : ""}`);
    showTip(svg, `${spec.x} ${shown(mine[0].x)}\n${told.join("\n")}`, x, y);
    bodyOf(svg).selectAll(".cursor").remove();
    bodyOf(svg).append("path").attr("class", "cursor").attr("transform", `translate(${margin.left},${margin.top})`).attr("stroke", ink().faint).attr("fill", "none")
      .attr("d", spec.near || spec.horizontal ? `M${mine[0].px - 7},${mine[0].py}a7,7 0 1 0 14,0a7,7 0 1 0 -14,0` : `M${mine[0].px},0V${height}`);
  };
  svg.onmousemove = (event) => {
    if (points.length === 0) return;
    const box = svg.getBoundingClientRect(), x = event.clientX - box.left - margin.left, y = event.clientY - box.top - margin.top;
    const farness = (p) => (spec.near ? Math.hypot(p.px - x, p.py - y) : Math.abs(p[key] - (spec.horizontal ? y : x)));
    const nearest = points.reduce((best, p) => (farness(p) < farness(best) ? p : best));
    const mine = spec.near ? [nearest] : points.filter((p) => (spec.type === "bar" ? p.x === nearest.x : p[key] === nearest[key]));
    tell(mine, event.clientX, event.clientY);
  };
  const leave = () => { hideTip(); bodyOf(svg).selectAll(".cursor").remove(); };
  svg.onmouseleave = leave;
  svg.onblur = leave;
  svg.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!step || stops.length === 0) return;
    event.preventDefault();
    at = Math.max(0, Math.min(stops.length - 1, at + step));
    tell(points.filter((p) => p[key] === stops[at]));
  };
};

// That an axis does not start at 0, as long as there is room for.
const startNote = (scale, log, room) => {
  const start = scale ? scale.domain()[0] : 0, note = `; the axis starts at ${shown(start)}, not at 0`;
  return log || !(start > 0) ? "" : widthOf(note) < room ? note : "; not from 0";
};

// spec: {title, note, term, type: "line" | "bar", x, y: names of the axes, labels: categories (without them x is a number),
// datasets, data: {names, rows}, rules, stacked, horizontal, log, zero, logX, xTicks, zeroX, most, tall, small, near}. A dataset's data are
// values by label, or points {x, y, low, high, mark, size, hollow, text, about}.
const drawChart = (svg, spec, width) => {
  const sets = spec.datasets.map((set) => ({ ...lookOf(set), points: pointsOf(spec, set) })), bars = spec.type === "bar";
  const { text, faint, mark } = ink();
  const top = drawLegend(svg, sets, bars, width);
  const inside = spec.horizontal ? spec.labels.length * 44 : (spec.tall ? 330 : spec.small ? 150 : 240);
  const value = valueScale(spec, sets, spec.horizontal ? [0, 1] : [inside, 0]), ticks = valueTicks(value, spec.horizontal ? Math.max(2, Math.floor(width / 90)) : 6), format = brief(value, ticks.length);
  const named = spec.horizontal ? spec.labels.map(String) : ticks.map(format), lead = Math.min(d3.max(named, widthOf) ?? 0, Math.max(width * 0.35, Math.min(170, width / 2)));
  const margin = { left: lead + (spec.horizontal ? 12 : 32), right: 14, top: top + 4 }, across = width - margin.left - margin.right;
  const position = positionScale(spec, sets, spec.horizontal ? [0, inside] : [0, across]);
  if (spec.horizontal) value.range([0, across]);
  const plot = d3.select(svg).append("g").attr("transform", `translate(${margin.left},${margin.top})`);
  const xTicks = positionTicks(spec, position, spec.horizontal ? inside : across), xFormat = position.ticks && !spec.xTicks ? brief(position, xTicks.length) : (v) => (typeof v === "number" ? shown(v) : v);
  const bottom = spec.horizontal ? d3.axisBottom(value).tickValues(ticks).tickFormat(format) : d3.axisBottom(position).tickValues(xTicks).tickFormat(xFormat);
  const side = spec.horizontal ? d3.axisLeft(position) : d3.axisLeft(value).tickValues(ticks).tickFormat(format);
  const below = plot.append("g").attr("transform", `translate(0,${inside})`);
  drawAxis(below, bottom, { key: "y2", length: -inside }, spec.horizontal || !bars);
  drawAxis(plot.append("g"), side, { key: "x2", length: across }, !spec.horizontal);
  const slanted = !spec.horizontal && !position.ticks && d3.max(xTicks, (t) => widthOf(String(xFormat(t))) + 6) > across / xTicks.length;
  const widest = slanted ? Math.min(90, d3.max(xTicks, (t) => widthOf(String(xFormat(t))))) : 0;
  if (slanted) below.selectAll("text").attr("text-anchor", "end").attr("transform", "rotate(-40)").attr("dx", "-0.5em").attr("dy", "0.3em");
  if (bars) drawBars(plot, spec, sets, position, value); else drawLines(plot, sets, position, value);
  drawRules(plot, sets, spec.rules ?? [], position, value, across, inside);
  const height = margin.top + inside + 24 + widest * 0.65;
  const axisName = (words, log, scale, room) => {
    const how = words + (log ? ", logarithmic" : ""), from = startNote(scale, log, room - widthOf(how)), name = d3.select(svg).append("text").attr("text-anchor", "middle");
    name.append("tspan").attr("fill", text).text(how);
    if (from) name.append("tspan").attr("fill", mark).text(from);
    return name;
  };
  // Numbers that things have (layers, nodes) need not begin at 0; figures that are compared (`near`) say where they do.
  (spec.horizontal ? axisName(spec.y, spec.log, value, across) : axisName(spec.x, spec.logX, spec.near && position.ticks && position, across)).attr("x", margin.left + across / 2).attr("y", height + 12);
  if (!spec.horizontal) axisName(spec.y, spec.log, value, inside).attr("transform", `translate(12,${margin.top + inside / 2})rotate(-90)`);
  readChart(svg, spec, sets, margin, inside);
  return height + 20;
};

const chart = (spec) => drawing({ ...spec, label: `${spec.title}. ${spec.note ?? ""} The data is in the table below it.` }, (svg, width) => drawChart(svg, spec, width),
  dataBelow(spec.title, spec.data.names, spec.data.rows));

// A chart whose content follows selects: `make(values)` gives it. selects: [{label, options: [[value, text]], value}].
const chosenChart = (selects, make) => {
  const place = el("div");
  const inputs = selects.map((select) => el("select", { "aria-label": select.name ?? select.label, onchange: () => update(true) },
    ...select.options.map(([value, text]) => el("option", { value, selected: value === select.value }, text))));
  const controls = el("div", { class: "tools" }, ...inputs.map((input, i) => el("label", {}, selects[i].label + " ", input)));
  const update = (again) => {
    const before = drawn.length;
    place.replaceChildren(make(inputs.map((input) => input.value)));
    if (again) drawn.slice(before).forEach((draw) => draw());
  };
  update(false);
  return el("div", {}, controls, place);
};

// Lines over numbered things (layers, GPUs, times): one per series, {label, x, y}.
const lines = (spec, series) => {
  const datasets = series.map((one) => ({ label: one.label, data: one.x.map((x, i) => ({ x, y: one.y[i], size: one.sizes?.[i] })), ...(one.style ?? {}) }));
  const rows = series.flatMap((one) => one.x.map((x, i) => [one.label, x, one.y[i]]));
  return chart({ type: "line", ...spec, datasets, data: { names: [spec.seriesName ?? "policy", spec.xName, spec.yName], rows } });
};
