// Puts the sections of whatever the folder holds on the page.

const applyTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  redraw();
};
const preferred = window.matchMedia("(prefers-color-scheme: dark)");
let chosen = preferred.matches ? "dark" : "light";
preferred.addEventListener("change", (event) => applyTheme((chosen = event.matches ? "dark" : "light")));
document.getElementById("theme").addEventListener("click", () => applyTheme((chosen = chosen === "dark" ? "light" : "dark")));
// Paper is white, has a width of its own, and does not scroll.
const print = (on) => { layOutForPaper(on); applyTheme(on ? "light" : chosen); };
window.addEventListener("beforeprint", () => print(true));
window.addEventListener("afterprint", () => print(false));

const has = (name) => Object.keys(report.files).filter((path) => path === name || path.endsWith("/" + name)).map(folderOf);

document.getElementById("subtitle").textContent = report.subtitle;
document.documentElement.dataset.theme = chosen;
const reproductions = has("claims.json");
const inReproduction = (root) => reproductions.some((r) => r === "" || root === r || root.startsWith(r + "/"));
for (const root of reproductions) guarded("The reproduction", () => claimsSections(root));
const comparisons = has("comparison.json");
for (const root of comparisons) guarded("The comparison", () => runSections(root));
for (const root of has("summary.json")) if (!comparisons.some((c) => root === c || folderOf(root) === c)) guarded(join(root, "summary.json"), () => runSections(root));
for (const root of has("goodput.json")) if (!inReproduction(root)) guarded(join(root, "goodput.json"), () => goodputSections(root));
for (const root of has("sweep.json")) guarded(join(root, "sweep.json"), () => sweepSections(root));
for (const root of has("capacity.json")) guarded(join(root, "capacity.json"), () => capacitySections(root));
for (const root of has("served.json")) guarded(join(root, "served.json"), () => servedSections(root));
for (const path of report.plans) guarded(path, () => planSections(path));
if (report.left_out.length > 0) section("Left out", ...report.left_out.map(absent));
applyTheme(chosen);
document.documentElement.dataset.ready = "yes";
