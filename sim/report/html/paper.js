// Paper does not scroll: on it a table wider than the page goes in parts, and a long one with its first rows.

let paper = false;  // the page is laid out for printing
const wholeRows = 60, firstRows = 30;  // of tables that scroll on the screen: printed whole, and where there are more

// A copy of a table with the columns given and at most `most` rows. Browsers leave buttons out where a header goes on.
const cutOut = (inner, columns, most) => {
  const body = el("tbody"), head = inner.tHead.cloneNode(true);
  body.append(...[...inner.tBodies[0].rows].slice(0, most).map((row) => row.cloneNode(true)));
  for (const button of head.querySelectorAll("button")) button.replaceWith(el("b", {}, button.textContent));
  const out = el("table", {}, head, body);
  for (const row of out.rows) [...row.cells].forEach((cell, at) => { if (!columns.includes(at)) cell.remove(); });
  return out;
};

// Columns of each part: widths[i] is the least width of column i; the first `lead` columns stand in every part.
const partsOf = (widths, lead, room) => {
  const sum = (values) => values.reduce((a, b) => a + b, 0), fixed = sum(widths.slice(0, lead)), parts = [];
  if (sum(widths) <= room) return [[...widths.keys()]];
  let used = Infinity;
  for (let at = lead; at < widths.length; ++at) {
    if (used + widths[at] > room) { parts.push([...Array(lead).keys()]); used = fixed; }
    parts[parts.length - 1].push(at);
    used += widths[at];
  }
  return parts;
};

// The columns that tell the rows apart: up to the last of the first texts, unless they take half of the page.
const leadOfTable = (cells, widths, room) => {
  const isText = cells.map((cell) => cell.classList.contains("text")), first = isText.indexOf(true);
  const end = first < 0 ? 1 : isText.indexOf(false, first);
  const lead = end < 0 ? 1 : end;
  return widths.slice(0, lead).reduce((a, b) => a + b, 0) > room / 2 ? 1 : lead;
};

const cutForPaper = (region, inner) => {
  const room = region.clientWidth, count = inner.tBodies[0].rows.length, cells = [...inner.tHead.rows[0].cells];
  const most = region.classList.contains("scroll") && count > wholeRows ? firstRows : count;
  const probe = cutOut(inner, [...cells.keys()], most);
  probe.style.width = "min-content";
  region.replaceChildren(probe);
  const widths = [...probe.tHead.rows[0].cells].map((cell) => cell.getBoundingClientRect().width);
  const parts = partsOf(widths, leadOfTable(cells, widths, room), room);
  region.replaceChildren(...parts.map((columns) => cutOut(inner, columns, most)));
  for (const part of region.children) part.classList.toggle("broken", part.offsetWidth > room);  // one column wider than the page
  if (parts.length > 1) region.prepend(el("p", { class: "note" }, `In ${parts.length} parts, one below the other: the page is narrower than the table.`));
  if (most < count) region.append(el("p", { class: "note" }, `The first ${most} of ${shown(count)} rows. The other ${shown(count - most)} are in ${region.dataset.file}, which this table's button CSV saves.`));
};

// Tables that were cut, with what stood in their place.
const cut = new Map();
const layOutForPaper = (on) => {
  paper = on;
  document.documentElement.toggleAttribute("data-paper", on);
  for (const [region, inner] of cut) region.replaceChildren(inner);
  cut.clear();
  if (!on) return;
  for (const region of document.querySelectorAll(".wide")) {
    if (region.clientWidth === 0) continue;  // closed
    cut.set(region, region.firstElementChild);
    cutForPaper(region, region.firstElementChild);
  }
};
