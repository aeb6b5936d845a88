// Tables whose columns sort, whose headers explain themselves and whose exact values can be saved.

// Shares are shown in percent; the CSV keeps them as they are in the files.
const isShare = (column) => unitOf(column.name) === "share";
// With three decimals, as the terminal and the sentences of the page have it.
const balanceText = (value) => (Number.isFinite(value) ? value.toFixed(3) : "–");
const cellText = (column, cell) => (column.text ? String(cell === "" ? "–" : cell ?? "–")
  : column.name?.startsWith("balancedness") ? balanceText(num(cell)) : shown(isShare(column) ? num(cell) * 100 : cell));

// Short texts keep to a line, long ones have room for several words.
const textStyle = (length) => (length > 24 ? "text long" : length < 16 ? "text short" : "text");

// columns: [{name, label, text, mark, show}], name = the figure in metrics.md, mark(cell) = a style class, show(row) = text for
// a cell that still sorts by its value; rows: arrays of cells (numbers or text).
const styleOf = (column, cell) => [column.text ? textStyle(String(cell).length) : "", column.mark ? column.mark(cell) : ""].join(" ").trim();
const table = (title, columns, rows, options = {}) => {
  const body = el("tbody");
  const heads = columns.map((column, at) => {
    const button = el("button", { type: "button", onclick: () => sortBy(at) }, column.label ?? wordsOf(column.name));
    explain(button, definitionOf(column.name) || column.note);
    const unit = isShare(column) ? "%" : unitOf(column.name);
    return el("th", { scope: "col", class: column.text ? "text" : "", "aria-sort": "none" }, button,
              unit ? el("span", { class: "unit" }, unit) : null);
  });
  const fill = (order) => {
    body.replaceChildren(...order.map((row) => el("tr", { class: row === rows[options.winner] && "winner" }, ...row.slice(0, columns.length).map((cell, at) =>
      el("td", { class: styleOf(columns[at], cell) }, columns[at].show ? columns[at].show(row) : cellText(columns[at], cell))))));
  };
  const sortBy = (at) => {
    const down = heads[at].getAttribute("aria-sort") === "ascending";
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === at ? (down ? "descending" : "ascending") : "none"));
    const order = columns[at].text
      ? [...rows].sort((a, b) => String(a[at] ?? "").localeCompare(String(b[at] ?? ""), "en", { numeric: true }))
      : [...rows].sort((a, b) => (Number.isNaN(num(a[at])) ? 1 : Number.isNaN(num(b[at])) ? -1 : num(a[at]) - num(b[at])));
    if (down) order.reverse();
    fill(order);
  };
  fill(rows);
  const inner = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  const file = (options.file ?? fileName(title)) + ".csv";
  const tools = el("div", { class: "tools" }, el("button", {
    type: "button",
    onclick: () => saveCsv(file, options.names ?? columns.map((c) => c.name),
                           options.all ?? rows),
  }, "CSV"));
  const notes = [options.long && rows.length > 10 ? `${countOf(rows.length, "row")}; scroll for those below.` : "", options.note ?? ""].filter(Boolean).join(" ");
  const region = el("div", { class: options.long ? "wide scroll" : "wide", tabindex: "0", role: "region", "aria-label": title, "data-file": file }, inner);
  const more = el("p", { class: "more", hidden: true }, "Scroll sideways for the columns at the right.");
  const watch = new ResizeObserver(() => { more.hidden = region.scrollWidth <= region.clientWidth + 1; });
  for (const node of [region, inner]) watch.observe(node);
  return el("figure", {}, el("figcaption", {}, el("div", {}, el("h3", {}, title), notes ? el("p", {}, notes) : null, more), tools), region);
};

// The data behind a chart, made when it is asked for.
const dataBelow = (title, names, rows) => {
  const details = el("details", {}, el("summary", {}, "Data as a table"));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) {
      const columns = names.map((name, at) => ({ name, text: rows.some((row) => typeof row[at] === "string") }));
      details.append(table(title, columns, rows, { long: true }));
    }
  });
  return details;
};

// Whose gain it is (--split): each policy's gain over experts in order as a sum; nothing without a split.
const gainSplitTable = (splits) => {
  // Below 0.05 % of the rate a part counts as none.
  const row = (policy, part) => { const [rate, share] = [estimate(part.requests_per_s), estimate(part.share)], none = Math.abs(share) < 5e-4; return [policy, part.part, none ? 0 : rate, none ? 0 : share, none ? 0 : halfWidth(part.share)]; };
  const rows = (splits ?? []).flatMap((split) => [...[...split.parts].reverse(), split.whole, ...(split.interaction ? [split.interaction] : [])].map((part) => row(split.policy, part)));
  return rows.length === 0 ? null : table("Whose gain it is", [{ name: "policy", text: true }, { name: "part", label: "part", text: true }, { name: "requests_per_s", label: "request rate" },
    { name: "of_off", label: "of off, %", show: (r) => `${r[3] > 0 ? "+" : ""}${shown(100 * r[3])}${r[4] > 0 ? ` ± ${shown(Number((100 * r[4]).toPrecision(2)))}` : ""}` }], rows,
    { note: "Against experts in order. Switched off from the whole in this order: planning again, KV room, steps, choice of copy, copies, placement; the parts add up to the whole, but for those below 0.05 %, which are written as 0." + (splits.some((split) => split.interaction) ? " The interaction is how much choice and KV room depend on each other." : "") });
};
