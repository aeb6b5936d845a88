#!/usr/bin/env bash
# usage: report_browser.sh EPSIM SCENARIO WORK_FOLDER
# Opens a report of every kind of output in headless Chromium, at the width of a desktop and of a phone: everything is
# drawn and can be saved as SVG, nothing is wider than the window or written to the console, hostile names stay text,
# sorting, tooltips, maps, colours, themes and the layout for paper work. Exits 77 (skipped) where no Chromium is installed.
set -euo pipefail
epsim=$1 scenario=$2 work=$3
browser=""
for name in chromium chromium-browser google-chrome; do
  browser=$(command -v "$name") && break
done
[ -n "$browser" ] || { echo "skipped: no Chromium is installed (Debian: apt-get install chromium)"; exit 77; }

source=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$work"
hostile='<img src=x onerror=document.documentElement.dataset.owned=1>'
out="$work/$hostile"
mkdir -p "$out"
cd "$work"
"$epsim" compare "$scenario" --policies base,eplb -q -o "$out/runs" > /dev/null
"$epsim" goodput "$scenario" --policies base,eplb -q --seeds 1 --tolerance 0.3 --sensitivity 8 --set requests.count=800 -o "$out/goodput" > /dev/null
"$epsim" sweep "$scenario" -q --vary cluster.nodes=1,2,3 --vary "name=plain,'</script>$hostile'" --policies base,eplb -o "$out/sweep" > /dev/null || [ $? -eq 1 ]
echo '{"policy": "craft", "num_gpus": 4, "weights": [[6,4,1,1,1,1,1,1],[5,4,2,1,1,1,1,1]]}' > request.json
"$epsim" plan request.json -o "$out/plan.json" > /dev/null
"$epsim" reproduce "$source/experiments/craft/claims.yaml" -q --quick --only C17,C18,C21,C28 --set plan_loads.steps=20 --set requests.output_tokens=16 -o "$out/craft" > /dev/null || [ $? -eq 1 ]
"$epsim" reproduce "$source/experiments/grace/claims.yaml" -q --quick --only G05 -o papers/grace > /dev/null || [ $? -eq 1 ]
"$epsim" reproduce "$source/experiments/libra/claims.yaml" -q --quick --only L02 -o papers/libra > /dev/null || [ $? -eq 1 ]
# As --sensitivity would leave it, which takes too long for a test.
sed -i '0,/"moved_most_by": \[\]/s//"moved_most_by": [{"input": "links <b>", "input_change": "slower", "value_before": 1.2, "value_after": 1.1}]/' "$out/craft/claims.json"
printf 'claim,statement,input,input_change,value_before,value_after\nC17,A / B,links <b>,slower,1.2,1.1\n' > "$out/craft/sensitivity.csv"
# More setups: copies of one.
for setup in ke12 da8; do sed -n "s/^ke6,/$setup,/p" "$out/craft/setups.csv"; done > more.csv
cat more.csv >> "$out/craft/setups.csv"
"$epsim" report "$out" -o report.html > /dev/null
"$epsim" report papers -o papers.html > /dev/null

# The page, with a script at its end that looks at it as a reader would and leaves what it saw in an attribute.
cat > report-check.html <<'CHECK'
<script>
// On paper charts fill their panel, tables are as wide as the page at most and lose no column, long ones say what is
// missing; afterwards all is as before.
const paperChecks = (all) => {
  const open = all(".wide").filter((region) => region.clientWidth > 0);
  const columnsOf = (region) => new Set([...region.querySelectorAll("th")].map((head) => head.textContent)).size;
  const state = () => open.map((region) => [region.querySelectorAll("tr").length, region.querySelectorAll("button").length].join()).join(";");
  const rows = open.map((region) => region.querySelectorAll("tbody tr").length), columns = open.map(columnsOf), before = state();
  dispatchEvent(new Event("beforeprint"));
  const page = document.getElementById("main").clientWidth;
  const charts = all("svg.chart").map((svg) => svg.getBoundingClientRect().width).filter((width) => width > 0).every((width) => width > 0.9 * page && width < page);
  const fit = open.every((region) => [...region.querySelectorAll("table")].every((part) => part.offsetWidth <= region.clientWidth + 1));
  const whole = open.every((region, i) => columnsOf(region) === columns[i]);
  const cut = open.filter((region, i) => region.matches(".scroll") && rows[i] > 60);
  const told = cut.length > 0 && cut.every((region) => region.querySelector("tbody").rows.length === 30 && /^The first 30 of [\d,]+ rows\. The other [\d,]+ are in \S+\.csv,/.test(region.lastChild.textContent));
  const split = open.some((region) => region.querySelectorAll("table").length > 1);
  dispatchEvent(new Event("afterprint"));
  return [charts, fit, whole, told, split, state() === before].join(" ");
};
addEventListener("load", () => {
  const all = (what) => [...document.querySelectorAll(what)];
  const charts = () => all("svg.chart").filter((svg) => svg.getBoundingClientRect().width > 0);
  const empty = () => charts().filter((svg) => svg.querySelectorAll("path[d], rect[width]").length < 2 || /NaN|undefined|Infinity/.test(svg.innerHTML)).length;
  const blank = empty();
  document.getElementById("theme").click();
  const dark = document.documentElement.dataset.theme;
  const blankInDark = empty();
  document.getElementById("theme").click();
  const head = all("th button")[5], column = () => [...head.closest("table").querySelectorAll("tbody tr")].map((row) => parseFloat(row.children[5].textContent));
  head.click();
  const sorted = column().every((v, i, values) => i === 0 || values[i - 1] <= v);
  head.click();
  const reversed = column().every((v, i, values) => i === 0 || values[i - 1] >= v) && head.closest("th").ariaSort === "descending";
  all(".term")[0].focus();
  const tip = document.getElementById("tip"), tipShown = !tip.hidden && tip.textContent.length > 20;
  const loads = all("svg.heat[aria-label^='Load by layer']");
  const readouts = loads.map((map) => {
    map.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
    return map.nextElementSibling.textContent;
  });
  const readout = loads.length >= 2 && readouts.every((text) => /^layer 0, GPU 1: [0-9.]+$/.test(text));
  const parts = all("section").map((part) => ({ title: part.querySelector("h2").textContent, part }));
  const overTime = parts.filter(({ title }) => title.endsWith("ver time"));
  const timeAxis = overTime.every(({ part }) => part.querySelectorAll("svg.chart").length === 5);
  const studies = parts.filter(({ title }) => ["What the claims are worked out from", "Throughput and TTFT", "Where the time goes near the knee"].includes(title)).map(({ part }) => part.querySelectorAll("svg.chart").length).join(" ");
  const claims = document.getElementById("s1").closest("section"), cells = (at) => [...claims.querySelector("tbody").rows].map((row) => row.children[at].textContent);
  const counted = all(".tile b").slice(0, 3).reduce((sum, tile) => sum + Number(tile.textContent), 0) === cells(0).length && cells(0).includes("C17");
  const marked = cells(1).every((verdict) => /^[✓≈✗] (reproduced|order only|missed)( \(not\srequired\))?$/.test(verdict));
  const moved = cells(8).includes("links <b>, slower: 1.2 to 1.1") && document.getElementById("s2").textContent === "What moves the claims";
  const choice = all("select[aria-label='setup of: time near the knee']")[0], before = charts().length;
  choice.selectedIndex = choice.options.length - 1;
  choice.dispatchEvent(new Event("change"));
  const chosen = charts().length === before && empty() === 0;
  const setups = [...choice.options].map((option) => option.value), ordered = setups.join() === "de8,dl8,ke6,ke12,da8";
  const legends = all("svg.chart .legend").map((legend) => [...legend.querySelectorAll("[data-series]")].map((entry) => entry.dataset)), coloursOf = (name) => new Set(legends.flat().filter((entry) => entry.series === name).map((entry) => entry.colour));
  const oneColour = ["base", "eplb", "KV cache", "dispatch"].every((name) => coloursOf(name).size === 1) && [...coloursOf("base")][0] !== [...coloursOf("eplb")][0];
  const stacked = legends.filter((mine) => mine.some((entry) => entry.series === "KV cache"));
  const apart = stacked.length > 0 && stacked.every((mine) => new Set(mine.map((entry) => entry.colour)).size === mine.length);
  const onlyPolicies = [...coloursOf("base"), ...coloursOf("eplb")].every((colour) => legends.flat().filter((entry) => entry.colour === colour).every((entry) => ["base", "eplb"].includes(entry.series)));
  const labels = all("svg.chart text").filter((text) => text.getBoundingClientRect().width > 0).map((text) => parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getBoundingClientRect().width / text.ownerSVGElement.viewBox.baseVal.width);
  const ticks = (title, axis) => all("figure.drawn").filter((figure) => figure.querySelector("h3").textContent === title).flatMap((figure) => [...figure.querySelectorAll(axis + " .tick text")].map((text) => text.textContent));
  const counts = [...ticks("Balancedness by layer", "[text-anchor=middle]"), ...ticks("Extra copies by layer", "")], whole = counts.length > 4 && counts.every((text) => /^[\d,]+$/.test(text));
  const compared = charts().filter((svg) => / against (output token rate|offered load)/.test(svg.getAttribute("aria-label")));
  const startsTold = compared.length > 2 && compared.every((svg) => [...svg.querySelectorAll(":scope > text:not([transform])")].some((text) => /not (at|from) 0$/.test(text.textContent)));
  const heading = (name) => all("th button").find((button) => button.getAttribute("aria-description")?.startsWith(name))?.textContent;
  const headings = [heading("swept: cluster.nodes"), heading("paper_value")].join();
  // Every drawing can be saved as SVG: well-formed, with its title, and without what only the screen needs.
  const saved = [], real = URL.createObjectURL;
  URL.createObjectURL = (blob) => { saved.push(blob); return real(blob); };
  HTMLAnchorElement.prototype.click = () => {};
  const drawings = all("figure.drawn").filter((figure) => figure.getBoundingClientRect().width > 0);
  drawings.forEach((figure) => figure.querySelector("button.svg").click());
  URL.createObjectURL = real;
  const keyTables = all(".wide[aria-label='Key figures'], .wide[aria-label='Goodput by policy']"), fits = keyTables.length === 2 && (innerWidth < 1000 || keyTables.every((region) => region.scrollWidth <= region.clientWidth));
  all("details").forEach((details) => { details.open = true; });
  setTimeout(async () => {
    const wide = Math.max(0, document.documentElement.scrollWidth - innerWidth);
    const documents = (await Promise.all(saved.map((blob) => blob.text()))).map((text) => new DOMParser().parseFromString(text, "image/svg+xml"));
    const exported = documents.length === drawings.length && drawings.length === charts().length && documents.every((svg, i) => !svg.querySelector("parsererror, .cursor") && svg.querySelector("text").textContent === drawings[i].querySelector("h3").textContent);
    const regions = all(".wide").filter((region) => region.clientWidth > 0), isCut = (region) => region.scrollWidth > region.clientWidth + 1, menu = document.querySelector("nav ul");
    const hinted = (innerWidth > 1000 || regions.some(isCut)) && regions.every((region) => isCut(region) === region.parentNode.querySelector(".more").offsetHeight > 0) && menu.scrollWidth <= menu.clientWidth && (innerWidth > 1000 || menu.scrollHeight <= menu.clientHeight);
    const outside = all("[src], [href]").filter((node) => !/^#/.test(node.getAttribute("href") ?? "")).length;
    const onPaper = paperChecks(all);
    document.documentElement.dataset.check = ["ready " + document.documentElement.dataset.ready, "owned " + document.documentElement.dataset.owned,
      "images " + all("img").length, "charts " + (charts().length > 15), "saved " + exported, "fits " + fits, "time axis " + timeAxis, "blank " + blank, "theme " + dark, "blank in dark " + blankInDark,
      "claims " + counted + " " + marked + " " + moved + " " + chosen, "maps " + (all("svg.heat").length >= 5), "sorted " + sorted + " " + reversed, "tip " + tipShown, "readout " + readout, "studies " + studies,
      "tables " + (all("details table").length > 10), "outside " + outside, "hinted " + hinted, "wider than the page " + wide, "setups " + ordered, "colours " + oneColour + " " + apart + " " + onlyPolicies, "labels " + labels.every((size) => size > 9), "whole counts " + whole, "headings " + headings, "x from " + startsTold, "paper " + onPaper, "named " + all("td").some((cell) => cell.textContent.includes("<img src=x"))].join("; ");
  }, 200);
});
</script>
</html>
CHECK

expected='ready yes; owned undefined; images 0; charts true; saved true; fits true; time axis true; blank 0; theme dark; blank in dark 0; claims true true true true; maps true; sorted true true; tip true; readout true; studies 7 1 1; tables true; outside 0; hinted true; wider than the page 0; setups true; colours true true true; labels true; whole counts true; headings nodes,paper; x from true; paper true true true true true true; named true'
# A page of other papers' claims: every chart is drawn, and nothing is wider than the window.
cat > papers-check.html <<'CHECK'
<script>
addEventListener("load", () => setTimeout(() => {
  const charts = [...document.querySelectorAll("svg.chart")].filter((svg) => svg.getBoundingClientRect().width > 0);
  const blank = charts.filter((svg) => svg.querySelectorAll("path[d], rect[width]").length < 2 || /NaN|undefined|Infinity/.test(svg.innerHTML)).length;
  const claims = ["G05", "L02"].every((id) => [...document.querySelectorAll("td")].some((cell) => cell.textContent === id));
  document.documentElement.dataset.check = ["charts " + (charts.length > 0), "blank " + blank, "claims " + claims, "wide " + (document.documentElement.scrollWidth > innerWidth)].join("; ");
}, 200));
</script>
</html>
CHECK
# No name resolves, so that not even the browser's own services reach the network.
for page in report papers; do
  { sed '/<\/html>/d' $page.html; cat $page-check.html; } > checked.html
  [ $page = report ] || expected='charts true; blank 0; claims true; wide false'
  for size in 1280,900 390,844; do
    timeout 100 "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
      --disable-component-update --disable-sync --user-data-dir="$work/profile-$size" --enable-logging=stderr --window-size=$size \
      --host-resolver-rules='MAP * ~NOTFOUND' \
      --virtual-time-budget=5000 --dump-dom "file://$work/checked.html" > dom.html 2> log.txt || { echo "the browser failed:"; tail -5 log.txt; exit 1; }
    if grep 'CONSOLE' log.txt; then
      echo "$page at $size: something was written to the console"
      exit 1
    fi
    seen=$(grep -o 'data-check="[^"]*"' dom.html | head -1 | sed 's/data-check="\(.*\)"/\1/')
    if [ "$seen" != "$expected" ]; then
      printf '%s at %s:\n  expected %s\n  seen     %s\n' "$page" "$size" "$expected" "$seen"
      exit 1
    fi
  done
done
rm -rf "$work"
