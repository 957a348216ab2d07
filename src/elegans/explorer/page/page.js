// The page of `elegans explore`, and of the one file that `elegans report` writes. It shows what the server, or the file,
// hands over as JSON: figures by Plotly, everything else as text nodes, so that no name or traceback becomes markup.
"use strict";

const report = JSON.parse(document.getElementById("report")?.textContent ?? "null");
const [main, lost, live] = ["main", "lost", "live"].map((id) => document.getElementById(id));
const STATES = ["solved", "unsolved", "diverged", "failed", "interrupted", "running", "missing"];
const SHOWN_ROWS = 500;
const HINT = "Click a square to see its trials. In the map, arrow keys move from cell to cell, Enter opens one.";
const MOVES = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// ---- elements ----

function make(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (name === "value") node.value = value;
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  const shown = children.flat(2).filter((child) => child != null && child !== false);
  node.append(...shown.map((child) => child.nodeType ? child : String(child)));
  return node;
}

const card = (title, ...children) => make("section", { class: "card" }, title && make("h2", {}, title), ...children);
const terms = (pairs) => make("dl", {}, pairs.map(([name, value]) => [make("dt", {}, name), make("dd", {}, said(value))]));
const hint = (text) => make("p", { class: "hint" }, text);

// Panels of the view by name. One is made again only when what it shows has changed, so that updates while a sweep runs
// close no list and move no focus.
const panels = new Map();

function panel(name, shows, build) {
  const text = JSON.stringify(shows);
  const before = panels.get(name);
  if (before?.text === text) return;
  const node = build() || make("div", { hidden: true });
  const focused = before?.node.contains(document.activeElement) ? document.activeElement.id : "";
  if (before) before.node.replaceWith(node);
  else main.append(node);
  panels.set(name, { text, node });
  if (focused) document.getElementById(focused)?.focus();
}

function clear() {
  drawn.forEach(({ div }) => Plotly.purge(div));
  drawn.clear();
  panels.clear();
  main.replaceChildren();
}

// ---- words and numbers ----

const whole = new Intl.NumberFormat("en-GB");
const short = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 4 });
const number = (value) => value == null ? "–" : (Number.isInteger(value) ? whole : short).format(value).replace("-", "−");
const many = (count, one) => `${whole.format(count)} ${one}${count === 1 ? "" : "s"}`;
const said = (value) => value == null || typeof value === "number" ? number(value)
  : typeof value === "object" ? JSON.stringify(value) : String(value);
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const plain = (text) => new DOMParser().parseFromString(String(text).replace(/<br *\/?>/g, " · "), "text/html").body.textContent;

function clock(seconds) {
  const [unit, name] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([one]) => seconds >= 1.5 * one) ?? [1, "s"];
  return `${(seconds / unit).toFixed(unit > 1 ? 1 : 0)} ${name}`;
}

function table(label, columns, rows) {
  const numeric = columns.map((_, place) => rows.some((row) => typeof row[place] === "number"));
  const line = (tag, values) => make("tr", {}, values.map((value, place) =>
    make(tag, { class: numeric[place] && "number" }, value?.nodeType ? value : said(value))));
  return make("div", { class: "scroll long", tabindex: "0", role: "region", "aria-label": label }, make("table", {},
    make("thead", {}, line("th", columns)), make("tbody", {}, rows.slice(0, SHOWN_ROWS).map((row) => line("td", row)))));
}

// ---- the address: every view is a link ----

const address = () => new URLSearchParams(report ? location.hash.slice(1) : location.search);
const link = (query) => (report ? "#" : "?") + new URLSearchParams(query);
const merged = (changes) => ({ ...Object.fromEntries(address()), ...changes });
const latest = {}; // of each view, the query that it had last

function go(query, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", link(query));
  return show();
}

document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a[data-inside]");
  if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(anchor.getAttribute("href").slice(1));
});
addEventListener("popstate", () => show());
document.getElementById("skip").addEventListener("click", () => main.focus());

const inside = (query, given, ...children) => make("a", { href: link(query), "data-inside": true, ...given }, ...children);

// ---- answers: from the server, or from the file ----

class Refused extends Error {}
class Gone extends Error {}
const reach = (url) => fetch(url, { cache: "no-store" }).catch(() => { throw new Gone("the server does not answer"); });

const download = async (query) => (await reach(`api/csv?${new URLSearchParams(query)}`)).text();

async function ask(path, query = {}) {
  if (report) return saved(path, new URLSearchParams(query));
  const reply = await reach(`api/${path}?${new URLSearchParams(query)}`);
  const answer = await reply.json().catch(() => ({ error: `the server answered with status ${reply.status}` }));
  if (!reply.ok) throw new Refused(answer.error);
  return answer;
}

// Answers lie packed in the file, each by itself.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

async function saved(path, query) {
  if (path === "overview") return report.overview;
  const nearest = (best, one) => agreement(one.view, query) > agreement(best.view, query) ? one : best;
  if (path === "map") return unpacked(report.maps.reduce(nearest).content);
  const number = path.replace("cell/", "");
  if (!Object.hasOwn(report.cells, number)) throw new Refused(`a cell must be in this file: ${number}`);
  const cell = await unpacked(report.cells[number]), named = cell.measured[query.get("measure")];
  return named ? { ...cell, figures: [...cell.figures.filter((one) => one.name !== "measure"), named] } : cell;
}

// How far a kept map is the one asked for: what people look at first counts most.
function agreement(view, query) {
  const flat = flattened(view);
  const names = ["x", "y", "facet", "stat", ...Object.keys(view.at).map((name) => `at.${name}`), "theory", "contour"];
  return names.reduce((sum, name) => 2 * sum + (query.get(name) === null || query.get(name) === flat[name] ? 1 : 0), 0);
}

const flattened = ({ x, y, facet, at, stat, theory, contour }) => ({
  ...{ x: x ?? "", y: y ?? "", facet: facet ?? "" },
  ...Object.fromEntries(Object.entries(at).map(([name, value]) => [`at.${name}`, value])),
  ...{ stat, theory: theory ? "1" : "0", contour: contour ? "1" : "0" },
});

// ---- saving ----

function save(content, name) {
  const url = URL.createObjectURL(content);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const saveText = (text, name) => save(new Blob([text], { type: "text/csv" }), name);
// Images are light whatever the page is: they go into papers.
async function saveImage({ figure, div }, format, name) {
  const layout = coloured(figure.layout, { ink: "#1c2326", grid: "#e3e6e5", line: "#9aa3a6", paper: "#fff" });
  const size = { width: Math.max(div.clientWidth, 600), height: div.clientHeight };
  const url = await Plotly.toImage({ data: figure.data, layout: { ...layout, ...size } }, { format, ...size, scale: 2 });
  const [head, body] = [url.slice(0, url.indexOf(",")), url.slice(url.indexOf(",") + 1)];
  const packed = head.endsWith("base64");
  const content = packed ? Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0)) : decodeURIComponent(body);
  save(new Blob([content], { type: head.slice(5).split(";")[0] }), `${name}.${format}`);
}

function quoted(value) {
  const given = value == null ? "" : String(value);
  const text = /^[=+\-@]/.test(given) && Number.isNaN(Number(given)) ? `'${given}` : given; // no formula in a spreadsheet
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csv = (columns, rows) => [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";

// The numbers of a chart, as Plotly has read them: one row per point of a line, one per square of a heat map.
function numbers(div) {
  const rows = div._fullData.flatMap((trace) => trace.z
    ? Array.from(trace.z, (row, i) => Array.from(row, (z, j) => [trace.name, trace.x?.[j] ?? j, trace.y?.[i] ?? i, z])).flat()
    : Array.from(trace.x ?? [], (x, i) => [trace.name, x, trace.y?.[i], null]));
  return csv(["series", "x", "y", "value"], rows);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not a secure context, such as another interface without TLS
    const area = make("textarea", { class: "unseen", value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function copied(text, label) {
  const button = make("button", { type: "button", "aria-label": `Copy: ${label}`, click: () => copy(text, button) }, "Copy");
  return make("div", { class: "copied" }, make("pre", { tabindex: "0" }, text), button);
}

// ---- figures ----

const dark = matchMedia("(prefers-color-scheme: dark)");

function coloured(layout, { ink, grid, line, paper }) {
  const font = { family: "system-ui, sans-serif", size: 12, ...layout.font, color: ink };
  const own = { plot_bgcolor: "rgba(0,0,0,0)", ...layout, paper_bgcolor: paper, font, hoverlabel: { align: "left", ...layout.hoverlabel } };
  for (const name of Object.keys(layout).filter((one) => /^[xy]axis\d*$/.test(one))) {
    own[name] = { gridcolor: grid, zerolinecolor: grid, linecolor: line, tickcolor: line, ...layout[name] };
  }
  if (layout.sliders) own.sliders = layout.sliders.map((one) => ({ bgcolor: grid, bordercolor: line, tickcolor: line, ...one }));
  return own;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return { ink: colour("--ink"), grid: colour("--grid"), line: colour("--line"), paper: "rgba(0,0,0,0)" };
}

const drawn = new Map(); // the charts on the page by name: figure, where it is drawn, its numbers as CSV

function draw({ figure, div, revision }) {
  const { width, ...layout } = coloured(figure.layout, theme());
  const fingers = matchMedia("(pointer: coarse)").matches; // they scroll the page
  const own = { ...layout, autosize: true, dragmode: fingers ? false : layout.dragmode ?? "zoom", uirevision: revision };
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
  return Plotly.react(div, { data: figure.data, layout: own, frames: figure.frames ?? [], config });
}

dark.addEventListener("change", () => drawn.forEach(draw));

// A figure with its title, buttons to save it, and a place below for what the keyboard reads out.
async function chart(name, title, figure, given = {}) {
  const button = (label, click) => make("button", { type: "button", click }, label);
  const image = (format) => button(format.toUpperCase(), () => saveImage(drawn.get(name), format, name));
  const text = button("CSV", async () => saveText(await drawn.get(name).data(), `${name}.csv`));
  panel(`chart ${name}`, title, () => make("section", { class: `card figure ${given.half ? "half" : ""}`, "aria-label": title },
    make("div", { class: "top" }, make("h2", {}, given.exact ? title : capital(title)),
      make("div", { class: "tools", role: "group", "aria-label": `Save: ${title}` }, image("svg"), image("png"), text)),
    make("div", { class: "scroll" }, make("div", { class: "chart" }, make("div", { class: "plot" }))),
    make("p", { class: "reading", "aria-live": "polite", hidden: !given.hint }),
    make("p", { class: "hint", hidden: !given.hint }, given.hint)));
  const section = panels.get(`chart ${name}`).node, div = section.querySelector(".plot");
  const across = new Set(Object.entries(figure.layout).filter(([key]) => /^xaxis/.test(key)).map(([, axis]) => `${axis.domain}`)).size;
  section.querySelector(".chart").style.minWidth = across > 1 ? `${across * 16}rem` : ""; // a phone scrolls the chart, not the page
  const fresh = !div.classList.contains("js-plotly-plot");
  drawn.set(name, { figure, div, data: given.data ?? (() => numbers(div)), revision: given.revision ?? title });
  await draw(drawn.get(name));
  return { section, div, fresh };
}

// ---- controls ----

const controls = (label, ...children) => make("section", { class: "card controls", "aria-label": label }, ...children);

function choice(name, label, options, chosen, change) {
  const id = `choose-${name}`;
  const entry = (one) => make("option", { value: one.name, selected: one.name === chosen, disabled: one.disabled }, one.label ?? one.name);
  return make("label", { for: id }, label, make("select", { id, change: (event) => change(event.target.value) }, options.map(entry)));
}

function slider(axis, chosen, change) {
  const id = `slide-${axis.name}`, shown = make("output", { id: `${id}-value`, for: id }, chosen);
  const disabled = !offered(`at.${axis.name}`, (value) => value !== chosen);
  const input = (event) => {
    slide(axis, axis.values[event.target.value]);
    change(axis.values[event.target.value]);
  };
  const range = { min: 0, max: axis.values.length - 1, step: 1, value: Math.max(axis.values.indexOf(chosen), 0) };
  return make("label", { class: "slider", for: id }, make("span", {}, `${axis.label} = `, shown),
    make("input", { id, type: "range", ...range, "aria-valuetext": chosen, disabled, input }));
}

// Move a slider that is there; the hand on it is not disturbed.
function slide(axis, value) {
  const input = document.getElementById(`slide-${axis.name}`);
  if (input !== document.activeElement) input.value = axis.values.indexOf(value);
  input.setAttribute("aria-valuetext", value);
  document.getElementById(`${input.id}-value`).textContent = value;
}

function check(name, label, on, change) {
  const id = `check-${name}`, disabled = !offered(name, (value) => value !== (on ? "1" : "0"));
  const input = make("input", { id, type: "checkbox", checked: on, disabled, change: (event) => change(event.target.checked ? "1" : "0") });
  return make("label", { class: "check", for: id }, input, label);
}

// Whether the file has a map with such a value; the server has all.
const offered = (name, which) => !report || report.maps.some((one) => which(flattened(one.view)[name]));
const choices = (list, given) => list.map((one) => ({ ...one, disabled: !offered(given, (value) => value === one.name) }));
const swept = (store, at) => store.axes.filter((axis) => axis.name in at && axis.values.length > 1);

// ---- views ----

const views = {
  overview: { title: "Overview", ask: () => null, draw: (_, ...page) => drawOverview(...page) },
  map: { title: "Map", ask: (query) => ask("map", query), draw: drawMap },
  cell: { title: "Cell", ask: askCell, draw: drawCell },
  compare: { title: "Compare", ask: (query) => ask("compare", query), draw: drawCompare, hidden: Boolean(report) },
};

let turn = 0, viewShown = "";
// Draw the view of the address. Where another is asked for meanwhile, the later one wins.
async function show() {
  const mine = ++turn, query = address();
  query.delete("token");
  try {
    const { stores } = await ask("overview");
    const store = stores[query.get("store") ?? 0];
    if (mine !== turn) return;
    if (!store) throw new Refused(`a store must be one of those of the command: ${query.get("store")}`);
    const name = query.get("view") ?? (store.cells ? "map" : "overview");
    if (!Object.hasOwn(views, name)) throw new Refused(`a view must be one of ${Object.keys(views).join(", ")}: ${name}`);
    query.delete("view");
    latest[name] = String(query);
    frame(name, store, stores);
    const answer = await views[name].ask(query);
    if (mine !== turn) return;
    const which = `${store.index} ${name} ${query.get("cell") ?? ""}`;
    if (which !== viewShown || panels.has("wrong")) {
      clear();
      viewShown = which;
      main.dataset.view = name;
      scrollTo(0, 0);
    }
    await views[name].draw(answer, store, query, stores);
    if (source?.readyState === EventSource.OPEN) alive(true);
  } catch (error) {
    if (error instanceof Gone) alive(false);
    if (mine !== turn || error instanceof Gone) return;
    clear();
    panel("wrong", error.message, () => make("div", { role: "alert" }, card("This cannot be shown", make("p", {}, error.message))));
    if (!(error instanceof Refused)) console.error(error);
  }
}

// The frame around every view: stores, tabs, progress.
function frame(name, store, stores) {
  document.title = `${views[name].title} · ${store.name} · elegans`;
  const list = document.getElementById("stores"), select = document.getElementById("store");
  list.hidden = stores.length < 2;
  if (select.length !== stores.length) {
    select.replaceChildren(...stores.map((one) => make("option", { value: one.index }, one.name)));
    select.onchange = () => {
      Object.keys(latest).forEach((view) => delete latest[view]);
      go({ view: "map", store: select.value });
    };
  }
  select.value = store.index;
  const at = stores.length > 1 ? { store: store.index } : {};
  const links = Object.entries(views).filter(([, view]) => !view.hidden).map(([key, view]) => {
    const last = new URLSearchParams(latest[key] ?? at);
    return inside([["view", key], ...last], { "aria-current": key === name && "page" }, view.title);
  });
  const nav = document.getElementById("views"), focused = [...nav.children].indexOf(document.activeElement);
  nav.replaceChildren(...links);
  nav.children[focused]?.focus();
  const working = store.runs.filter((run) => run.state === "at work");
  document.getElementById("progress").replaceChildren(...working.map((run) => make("div", { class: "run" }, bar(run), pace(run))));
  if (report) live.textContent = `written ${report.written}`;
}

const bar = (run) => make("progress", { max: run.trials, value: run.done, "aria-label": `Progress of ${run.name}` });

function pace(run) {
  const parts = [`${run.name}: ${number(run.done)} of ${many(run.trials, "trial")}`];
  if (run.per_second) parts.push(`${short.format(run.per_second)} per second`);
  if (run.seconds_left != null) parts.push(`${clock(run.seconds_left)} left`);
  return parts.join(" · ");
}

// ---- overview ----

function drawOverview(store) {
  panel("head", [store.name, store.cells, store.trials], () => make("div", {}, make("h1", {}, store.name),
    make("p", { class: "lead" }, `${many(store.trials, "trial")} in ${many(store.cells, "cell")}`)));
  panel("states", store.states, () => statesCard(store));
  panel("experiments", store.experiments, () => make("div", {}, store.experiments.map((one) => card(
    one.name + (one.scale ? ` at scale ${one.scale}` : ""), make("p", { class: "lead" }, one.title),
    make("ul", { class: "claims" }, one.verdicts.map(claim))))));
  panel("runs", store.runs, () => store.runs.length > 0 && card("Runs", table("Runs",
    ["run", "state", "progress", "trials", "per second", "left", "host"], store.runs.map((run) => [run.name, run.state, bar(run),
      `${number(run.done)} of ${number(run.trials)}`, run.per_second ? short.format(run.per_second) : null,
      run.seconds_left == null ? null : clock(run.seconds_left), run.host ? `${run.host} (${run.pid})` : null]))));
  panel("axes", store.axes, () => store.axes.length > 0 && card("What is swept",
    terms(store.axes.map((axis) => [axis.label, listed(axis.values)]))));
  const failed = store.states.failed ?? 0, most = store.failures.length;
  const open = (cell) => inside({ view: "cell", store: store.index, cell }, {}, cell);
  panel("failures", [store.failures, failed], () => most > 0 && card(failed > most ? `Failures: ${most} of ${number(failed)}` : "Failures",
    table("Failures", ["cell", "seed", "reason"], store.failures.map((one) => [open(one.cell), one.seed, one.reason]))));
  if (report) panel("record", report.record, () => card("Record", terms(Object.entries(report.record))));
}

const claim = ({ id, verdict, because }) => make("li", {},
  make("span", { class: `verdict ${verdict.replaceAll(" ", "-")}` }, verdict), " ", make("strong", {}, id),
  report?.claims[id] && make("p", {}, report.claims[id]), hint(capital(because)));

const listed = (values) => values.length <= 12 ? values.join(", ")
  : `${values.slice(0, 6).join(", ")} … ${values.slice(-3).join(", ")} (${values.length})`;

function statesCard(store) {
  const counts = STATES.map((state) => [state, store.states[state]]).filter(([, count]) => count);
  const bars = make("div", { class: "states", "aria-hidden": "true" }, counts.map(([state]) => make("div", { class: state })));
  counts.forEach(([, count], place) => { bars.children[place].style.flex = `${count} 0 0`; });
  return card("Trials", bars, make("div", { class: "key" }, counts.map(([state, count]) =>
    make("span", {}, make("i", { class: state }), `${number(count)} ${state}`))));
}

// ---- map ----

const stored = (query) => query.has("store") ? { store: query.get("store") } : {};
const cellOf = (point) => Array.isArray(point?.customdata) ? point.customdata[0] : point?.customdata;

async function drawMap(answer, store, query) {
  const { view } = answer, flat = { ...stored(query), ...flattened(view) };
  const set = (changes, replace) => go({ view: "map", ...flat, ...changes }, replace);
  history.replaceState(null, "", link({ view: "map", ...flat }));
  latest.map = String(new URLSearchParams(flat));
  // An axis that takes another's place changes places with it.
  const place = (which) => (name) => {
    const other = ["x", "y", "facet"].find((key) => key !== which && name && flat[key] === name);
    set({ ...(other ? { [other]: flat[which] } : {}), [which]: name });
  };
  const free = store.axes.filter((axis) => axis.name !== view.x && axis.name !== view.y);
  const sliders = swept(store, view.at);
  panel("controls", [{ ...view, at: Object.keys(view.at) }, store.axes, store.statistics], () => controls("What the map shows",
    choice("stat", "Colour", choices(store.statistics, "stat"), view.stat, (stat) => set({ stat })),
    store.axes.length > 0 && choice("x", "x axis", choices(store.axes, "x"), view.x, place("x")),
    store.axes.length > 1 && choice("y", "y axis", choices(store.axes, "y"), view.y, place("y")),
    free.length > 0 && choice("facet", "Facets", [{ name: "", label: "none" }, ...choices(free, "facet")], flat.facet, place("facet")),
    sliders.map((axis) => slider(axis, view.at[axis.name], (value) => go(merged({ [`at.${axis.name}`]: value }), true))),
    check("contour", "Contour", view.contour, (contour) => set({ contour })),
    view.theories && check("theory", "Theory", view.theory, (theory) => set({ theory }))));
  sliders.forEach((axis) => slide(axis, view.at[axis.name]));
  const data = () => report ? report.csv : download({ kind: "map", ...flat });
  const { section, div, fresh } = await chart("map", answer.title, answer.figure, { data, revision: answer.query, hint: HINT });
  grid(section, div, fresh, (cell) => go({ view: "cell", ...stored(query), cell }));
}

// Squares that open: by a click, and by arrow keys, which move a frame around one of them.
function grid(section, div, fresh, open) {
  const box = section.querySelector(".chart");
  box.open = open;
  if (!fresh) { box.place(); return; }
  const square = make("div", { class: "cursor", hidden: true });
  box.append(square);
  box.tabIndex = 0;
  box.setAttribute("role", "application");
  box.setAttribute("aria-label", "Map: arrow keys move from cell to cell, Enter opens one");
  const at = { pane: 0, row: 0, column: 0 };
  const panes = () => (div._fullData ?? []).filter((trace) => trace.type === "heatmap" && trace.customdata);
  const axis = (trace, letter) => div._fullLayout[(trace[`${letter}axis`] ?? letter).replace(letter, `${letter}axis`)];
  // Where a square begins and how long it is in pixels along one axis.
  const span = (trace, letter, index, count) => {
    const own = axis(trace, letter), middle = (place) => own._offset + own.d2p(trace[letter]?.[place] ?? place);
    const size = count < 2 ? own._length : Math.abs(middle(index) - middle(index ? index - 1 : 1));
    return [middle(index) - size / 2, size];
  };
  box.place = () => {
    const trace = panes()[at.pane];
    square.hidden = !trace || !box.matches(":focus-within");
    if (square.hidden) return;
    const [left, width] = span(trace, "x", at.column, trace.z[0].length), [top, height] = span(trace, "y", at.row, trace.z.length);
    for (const [name, size] of Object.entries({ left, top, width, height })) square.style[name] = `${size}px`;
  };
  const read = () => {
    const trace = panes()[at.pane], told = trace?.text?.[at.row]?.[at.column];
    section.querySelector(".reading").textContent = told ? plain(told) : "no cell here";
  };
  const chosen = (cell) => cell != null && box.open(cell);
  box.addEventListener("keydown", (event) => {
    const all = panes(), trace = all[at.pane];
    if (!trace || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") chosen(cellOf({ customdata: trace.customdata[at.row][at.column] }));
    if (!(event.key in MOVES)) return;
    event.preventDefault();
    const [rise, right] = MOVES[event.key], [bottom, top] = axis(trace, "y").range;
    at.row = Math.min(Math.max(at.row + (bottom <= top ? rise : -rise), 0), trace.z.length - 1);
    at.column += right;
    if (at.column < 0 || at.column >= trace.z[0].length) { // over the edge lies the next facet
      const next = all[at.pane + right];
      at.column = next ? (right > 0 ? 0 : next.z[0].length - 1) : at.column - right;
      at.pane += next ? right : 0;
    }
    box.place();
    read();
  });
  box.addEventListener("focus", () => { box.place(); read(); });
  box.addEventListener("blur", () => box.place());
  div.on("plotly_click", (event) => chosen(cellOf(event.points[0])));
  div.on("plotly_afterplot", () => box.place());
}

// ---- cell ----

function askCell(query) {
  if (!query.has("cell")) throw new Refused("a cell must be chosen first: click a square of the map");
  const { cell, ...asked } = Object.fromEntries(query);
  return ask(`cell/${encodeURIComponent(cell)}`, asked);
}

async function drawCell(answer, store, query) {
  const { cell, columns, measures, trials, failures } = answer;
  const counts = Object.entries(answer.counts).filter(([, count]) => count).map(([name, count]) => `${said(count)} ${name}`);
  const own = store.axes.map((axis) => axis.name).filter((name) => name in columns);
  const described = (names) => terms(names.map((name) => [name, columns[name]]));
  panel("head", [columns, counts, own], () => make("div", {},
    make("p", {}, inside(`view=map&${latest.map ?? new URLSearchParams(stored(query))}`, {}, "← Map")),
    make("h1", {}, `Cell ${cell}`), make("p", { class: "lead" }, counts.join(" · ")),
    card("", described(own), make("details", {}, make("summary", {}, "All settings"),
      described(Object.keys(columns).filter((name) => !own.includes(name)))))));
  const [measured, others] = [true, false].map((wanted) => answer.figures.filter((one) => (one.name === "measure") === wanted));
  for (const one of others) await chart(one.name, one.title, one.figure, { half: true });
  const measure = query.get("measure") ?? measures[0];
  const choose = (one) => go({ view: "cell", ...stored(query), cell, measure: one });
  panel("measures", [measures, measure], () => measures.length > 0 && controls("Which measure is shown",
    choice("measure", "Measure", measures.map((name) => ({ name })), measure, choose)));
  for (const one of measured) await chart(one.name, one.title, one.figure, { exact: true });
  const failure = (one) => make("details", { open: failures.length === 1 }, make("summary", {}, `seed ${one.seed}`),
    make("pre", { tabindex: "0" }, one.traceback));
  panel("failures", failures, () => failures.length > 0 && card("Failed trials", failures.map(failure)));
  const names = ["seed", "state", "solved_at", "test_error", "seconds", "error"];
  const rows = trials.map((trial) => names.map((name) => trial[name]));
  const written = () => report ? csv(names, rows) : download({ kind: "cell", ...stored(query), cell });
  const click = async () => saveText(await written(), `cell-${cell}.csv`);
  panel("trials", [trials, answer.trials_total], () => make("section", { class: "card figure" }, make("div", { class: "top" },
    make("h2", {}, answer.trials_total > trials.length ? `Trials: ${number(trials.length)} of ${number(answer.trials_total)}` : "Trials"),
    make("div", { class: "tools" }, make("button", { type: "button", click }, "CSV"))),
    table("Trials", ["seed", "state", "steps to solve", "test error", "seconds", "error"], rows)));
  const { python, toml, command } = answer.copy;
  const all = { "In Python": python, "As TOML": toml, "On the command line": command, "Run 20 more seeds": answer.more };
  panel("copy", all, () => card("Repeat it", Object.entries(all).filter(([, text]) => text)
    .map(([label, text]) => [make("h3", {}, label), copied(text, label)])));
}

// ---- compare ----

async function drawCompare(answer, store, query, all) {
  const now = { ...Object.fromEntries(new URLSearchParams(answer.query)), ...stored(query) };
  history.replaceState(null, "", link({ view: "compare", ...now }));
  latest.compare = String(new URLSearchParams(now));
  const set = (changes) => go(Object.entries({ view: "compare", ...now, ...changes }).filter(([, value]) => value != null));
  const by = store.axes.find((axis) => axis.name === now.by), values = (by?.values ?? []).map((name) => ({ name }));
  const others = all.filter((one) => one.index !== store.index).map((one) => ({ name: String(one.index), label: one.name }));
  const at = Object.fromEntries(store.axes.map((axis) => [axis.name, now[`at.${axis.name}`]]).filter(([, value]) => value != null));
  const free = store.axes.filter((axis) => axis.name !== now.by);
  const place = (which, other) => (name) => set(name === now[other] ? { [which]: name, [other]: now[which] } : { [which]: name });
  panel("controls", [now, store.axes, store.statistics, others], () => controls("What is compared",
    choice("stat", "Compare", store.statistics.filter((one) => one.compared), now.stat, (stat) => set({ stat })),
    others.length > 0 && choice("other", "With", [{ name: "", label: "this store" }, ...others], now.other ?? "",
      (other) => set(other ? { other, by: null, a: null, b: null } : { other: null })),
    by && [choice("by", "By", store.axes, now.by, (name) => set({ by: name, a: null, b: null, x: null, y: null })),
      choice("a", "First", values, now.a, (a) => set({ a })), choice("b", "Second", values, now.b, (b) => set({ b }))],
    now.x && choice("x", "x axis", free, now.x, place("x", "y")), now.y && choice("y", "y axis", free, now.y, place("y", "x")),
    swept(store, at).map((axis) => slider(axis, at[axis.name], (value) => set({ [`at.${axis.name}`]: value })))));
  const { section, div, fresh } = await chart("compare", answer.title ?? "Difference, with its 95% interval", answer.figure, {
    data: () => download({ kind: "compare", ...now }), hint: HINT });
  grid(section, div, fresh, (cell) => go({ view: "cell", ...stored(query), cell }));
  const names = Object.keys(answer.rows[0]?.columns ?? {});
  const columns = [...names, ...answer.sides, "difference", "95% interval", "trials", "paired"];
  const line = ({ a, b, low, high, n, paired, ...row }) => [...names.map((name) => row.columns[name]), a, b, row.difference,
    low == null && high == null ? null : `${number(low)} to ${number(high)}`, n, paired ? "yes" : "no"];
  panel("rows", answer.rows, () => answer.rows.length > 0 && card("Cell by cell", table("Differences", columns, answer.rows.map(line)),
    answer.rows.length > SHOWN_ROWS && hint(`The first ${SHOWN_ROWS} of ${number(answer.rows.length)}; the CSV has all.`)));
}

// ---- live: told of every commit; a server that is gone is waited for ----

let source, busy = false, again = false;
async function update() {
  again = busy;
  if (busy) return;
  busy = true;
  await show();
  busy = false;
  if (again) update();
}

function alive(yes) {
  lost.hidden = yes;
  lost.textContent = yes ? "" : "The server has gone: what is shown stays as it was. Trying to reach it again …";
  live.textContent = yes ? "live" : "";
  live.classList.toggle("alive", yes);
}

function listen() {
  source = new EventSource("api/events");
  source.addEventListener("change", update);
  source.addEventListener("open", () => lost.hidden ? alive(true) : update());
  source.addEventListener("error", () => {
    alive(false);
    source.close();
    setTimeout(listen, 2000);
  });
}

show();
if (!report) listen();
