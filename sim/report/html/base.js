// The data of the report, and the few tools that every section uses. Text from files reaches the page through
// textContent alone, so no name in them can become markup.

const report = JSON.parse(document.getElementById("data").textContent);

// A line does not break between a number and its "%".
const unbroken = (child) => (typeof child === "string" ? child.replace(/(\d) %/g, "$1\u00a0%") : child);
const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined).map(unbroken));
  return node;
};

// RFC 4180: rows of text cells, the header's names beside them.
const parseCsv = (text) => {
  const rows = [[""]];
  let quoted = false;
  for (let i = 0; i < text.length; ++i) {
    const row = rows[rows.length - 1], c = text[i];
    if (c === '"' && quoted && text[i + 1] === '"') { row[row.length - 1] += '"'; ++i; }
    else if (c === '"') quoted = !quoted;
    else if (c === "," && !quoted) row.push("");
    else if (c === "\n" && !quoted) rows.push([""]);
    else row[row.length - 1] += c;
  }
  if (rows[rows.length - 1].length === 1 && rows[rows.length - 1][0] === "") rows.pop();
  const [names, ...cells] = rows;
  return { names, rows: cells };
};

// A cell or JSON value as a number; NaN where it is not defined, which charts leave blank.
const num = (value) => (value === "" || value === null || value === undefined ? NaN : Number(value));

// Rows of text cells whose columns have names.
const csvTable = (names, rows) => {
  const at = (name) => names.indexOf(name);
  return {
    names, rows,
    has: (name) => at(name) >= 0,
    texts: (name) => rows.map((row) => row[at(name)] ?? ""),
    numbers: (name) => rows.map((row) => num(row[at(name)])),
    where: (name, wanted) => csvTable(names, rows.filter((row) => wanted(row[at(name)] ?? ""))),
  };
};
// A CSV file, or null where the folder does not have it.
const csvFile = (path) => {
  if (report.files[path] === undefined) return null;
  const { names, rows } = parseCsv(report.files[path]);
  return csvTable(names, rows);
};
const jsonFile = (path) => (report.files[path] === undefined ? null : JSON.parse(report.files[path]));
const join = (folder, name) => (folder === "" ? name : folder + "/" + name);
const folderOf = (path) => (path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "");

// About four significant digits, thousands grouped; a dash where nothing is defined.
const shown = (value) => {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return value.toLocaleString("en-US");
  if (size >= 1e4) return Math.round(value).toLocaleString("en-US");
  if (size !== 0 && size < 1e-3) return value.toExponential(2);
  return Number(value.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 4 });
};
// "1 layer", "2 layers".
const countOf = (count, one) => `${shown(count)} ${one}${count === 1 ? "" : "s"}`;

const define = (name) => report.definitions[name] ?? null;
const sweptKeys = new Set();  // keys that a sweep varied, which metrics.md does not know
const definitionOf = (name) => (define(name) ? `${name}: ${define(name).text}` : sweptKeys.has(name) ? `swept: ${name}` : "");
const unitOf = (name) => {
  const known = define(name);
  return known && !["text", "list", "section", "true, false"].includes(known.unit) ? known.unit : "";
};
// The name of a figure of metrics.md in words: "knee_requests_per_s" [1/s] is "knee request rate", "kv_pool_gib_per_gpu" [GiB]
// is "KV pool per GPU", "usd_per_hour" [USD/h] is "cost". Keys of scenarios stay as they are.
const unitEndings = { s: "s", ms: "ms", us: "us", GiB: "gib", GB: "GB", "GB/s": "GBps", bytes: "bytes" };
const spelled = { kv: "KV", ttft: "TTFT", itl: "ITL", tpot: "TPOT", slo: "SLO", e2e: "end-to-end", gpu: "GPU", gpus: "GPUs", dp: "DP", usd: "cost", watts: "power", joules: "energy" };
const wordsOf = (name) => {
  if (name.includes(".")) return name;
  if (name === "requests_per_s") return "served request rate";  // beside the rate offered
  const parts = name.replace(/(request|token)s_per_s(?=_|$)/, "$1_rate").replace(unitOf(name).endsWith("/h") ? /(_per)?_hour$/ : "", "").split("_");
  const kept = parts.filter((part) => part !== unitEndings[unitOf(name)]);
  return (kept.length > 0 ? kept : parts).map((part) => spelled[part] ?? part).join(" ");
};
// Of equal policies the simplest first. As many as the palette has colours: each keeps its own from page to page.
const policyOrder = ["contiguous", "base", "eplb", "craft", "eplb_sglang", "eplb_vllm", "grace", "swift_balancer", "flashlb", "libra", "oracle", "perfect"];
const policyRank = (name) => (policyOrder.includes(name) ? policyOrder.indexOf(name) : policyOrder.length);
// A series has one colour, mark and dash on the whole page: those of its place here. Policies that are seen first come
// to their own; other series take those that are free.
const seriesSeen = [];
const seePolicies = (names) => {
  for (const name of [...names].sort((a, b) => policyRank(a) - policyRank(b)).filter((one) => !seriesSeen.includes(one))) {
    let at = policyRank(name) < policyOrder.length ? policyRank(name) : 0;
    while (at in seriesSeen) ++at;
    seriesSeen[at] = name;
  }
};
const toneOf = (name) => { seePolicies([name]); return seriesSeen.indexOf(name); };
const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);
const withUnit = (label, name) => (unitOf(name) ? `${label} [${unitOf(name)}]` : label);

// One tooltip for the page, shown on hover and on focus.
const tip = document.getElementById("tip");
// At a node, or at a place of the window.
const showTip = (node, text, x, y) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = x === undefined ? node.getBoundingClientRect() : { left: x + 12, top: y, bottom: y + 12 }, own = tip.getBoundingClientRect();
  const below = box.bottom + own.height + 6 < window.innerHeight;
  tip.style.left = Math.max(4, Math.min(box.left, window.innerWidth - own.width - 4)) + "px";
  tip.style.top = (below ? box.bottom + 4 : Math.max(4, box.top - own.height - 4)) + "px";
};
const hideTip = () => { tip.hidden = true; };
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
document.addEventListener("scroll", hideTip, { passive: true, capture: true });
const explain = (node, text) => {
  if (!text) return node;
  node.setAttribute("aria-description", text);
  for (const on of ["mouseenter", "focus"]) node.addEventListener(on, () => showTip(node, text));
  for (const off of ["mouseleave", "blur"]) node.addEventListener(off, hideTip);
  return node;
};
// A word with its definition from metrics.md.
const term = (label, name) => {
  const text = definitionOf(name);
  return text ? explain(el("span", { class: "term", tabindex: "0" }, label), text) : el("span", {}, label);
};

const save = (name, blob) => {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const csvText = (names, rows) => {
  const field = (value) => {
    const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return [names, ...rows].map((row) => row.map(field).join(",")).join("\n") + "\n";
};
const saveCsv = (name, names, rows) => save(name, new Blob([csvText(names, rows)], { type: "text/csv" }));
const fileName = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "data";

const main = document.getElementById("main");
const absent = (text) => el("p", { class: "absent" }, text);
const seedNote = (n) => (n > 1 ? `mean over ${n} seeds` : "one seed");

// A part of the page that cannot be drawn (a file of another version, say) is told about, and the rest goes on.
const guarded = (what, draw) => {
  try { draw(); } catch (error) {
    console.error(error);
    main.append(absent(`${what} cannot be drawn: ${error.message}`));
  }
};

// Sections in order; each is a heading with an entry in the list at the top.
const toc = document.getElementById("toc");
let sections = 0;
const section = (title, ...children) => {
  const id = "s" + ++sections;
  toc.append(el("li", {}, el("a", { href: "#" + id }, title)));
  const node = el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...children);
  main.append(node);
  return node;
};
