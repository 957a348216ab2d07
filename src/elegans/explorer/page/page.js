// The page of `elegans explore`, and of the one file that `elegans report` writes. It shows what the server, or the file,
// hands over as JSON: figures by Plotly, everything else as text nodes, so that no name or traceback becomes markup.
"use strict";

const report = JSON.parse(document.getElementById("report")?.textContent ?? "null");
const main = document.getElementById("main");
const lost = document.getElementById("lost");
const STATES = ["solved", "unsolved", "diverged", "failed", "interrupted", "running", "missing"];
const SHOWN_ROWS = 500;

// ---- elements ----

function make(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (name === "value") node.value = value;
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child != null && child !== false).map((child) => child.nodeType ? child : String(child)));
  return node;
}

// Panels of the view by name. One is made again only when what it shows has changed, so that updates while a sweep runs
// close no list and move no focus.
const panels = new Map();

function panel(name, shows, build) {
  const text = JSON.stringify(shows);
  const before = panels.get(name);
  if (before?.text === text) return;
  const node = build();
  const focused = before?.node.contains(document.activeElement) ? document.activeElement.id : "";
  if (before) before.node.replaceWith(node);
  else main.append(node);
  panels.set(name, { text, node });
  if (focused) document.getElementById(focused)?.focus();
}

function clear() {
  for (const div of main.querySelectorAll(".chart > .js-plotly-plot")) Plotly.purge(div);
  panels.clear();
  main.replaceChildren();
}

// ---- words and numbers ----

const whole = new Intl.NumberFormat("en-GB");
const short = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 4 });
const number = (value) => value == null ? "–" : Number.isInteger(value) ? whole.format(value) : short.format(value);
const many = (count, one) => `${whole.format(count)} ${one}${count === 1 ? "" : "s"}`;
const said = (value) => value == null ? "–" : typeof value === "number" ? number(value) : typeof value === "object" ? JSON.stringify(value) : String(value);
const plain = (text) => new DOMParser().parseFromString(String(text).replace(/<br *\/?>/g, " · "), "text/html").body.textContent;

function clock(seconds) {
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= 1.5 * unit) return `${(seconds / unit).toFixed(1)} ${name}`;
  return `${Math.round(seconds)} s`;
}

function table(columns, rows, given = {}) {
  const numeric = columns.map((_, place) => rows.some((row) => typeof row[place] === "number"));
  const cell = (tag, value, place) => make(tag, { class: numeric[place] && "number", scope: tag === "th" && "col" }, value?.nodeType ? value : said(value));
  return make("div", { class: "scroll long", tabindex: "0", role: "region", "aria-label": given.label }, make("table", {},
    make("thead", {}, make("tr", {}, columns.map((name, place) => cell("th", name, place)))),
    make("tbody", {}, rows.slice(0, SHOWN_ROWS).map((row) => make("tr", {}, row.map((value, place) => cell("td", value, place)))))));
}

// ---- the address: every view is a link ----

const address = () => new URLSearchParams(report ? location.hash.slice(1) : location.search);
const link = (query) => (report ? "#" : "?") + new URLSearchParams(query);
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

const current = () => Object.fromEntries(address());
const inside = (query, given, ...children) => make("a", { href: link(query), "data-inside": true, ...given }, ...children);

// ---- answers: from the server, or from the file ----

class Refused extends Error {}
class Gone extends Error {}

const reach = (url) => fetch(url, { cache: "no-store" }).catch(() => { throw new Gone("the server does not answer"); });

async function ask(path, query = {}) {
  if (report) return saved(path, new URLSearchParams(query));
  const reply = await reach(`api/${path}?${new URLSearchParams(query)}`);
  const answer = await reply.json().catch(() => ({ error: `the server answered with status ${reply.status}` }));
  if (!reply.ok) throw new Refused(answer.error);
  return answer;
}

function saved(path, query) {
  if (path === "overview") return report.overview;
  if (path === "map") return report.maps.map((one) => [agreement(one.view, query), one]).reduce((best, next) => next[0] > best[0] ? next : best)[1];
  const found = report.cells[path.replace("cell/", "")];
  if (!found) throw new Refused(`a cell must be in this file: ${path.replace("cell/", "")}`);
  const named = found.measured?.[query.get("measure")];
  return named ? { ...found, figures: [...found.figures.filter((one) => one.name !== "measure"), named] } : found;
}

// How far a kept map is the one asked for: what people look at first counts most.
function agreement(view, query) {
  const flat = flattened(view);
  const names = ["x", "y", "facet", "stat", ...Object.keys(flat).filter((name) => name.startsWith("at.")), "theory", "contour"];
  return names.reduce((sum, name) => 2 * sum + (query.get(name) === null || query.get(name) === flat[name] ? 1 : 0), 0);
}

const flattened = ({ x, y, facet, at, stat, theory, contour }) => ({
  x: x ?? "", y: y ?? "", facet: facet ?? "", ...Object.fromEntries(Object.entries(at).map(([name, value]) => [`at.${name}`, value])),
  stat, theory: theory ? "1" : "0", contour: contour ? "1" : "0",
});

// ---- saving ----

function save(content, name) {
  const url = URL.createObjectURL(content);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function saveImage(figure, format, name, width, height) {
  const layout = coloured(figure.layout, { ink: "#1c2326", grid: "#e3e6e5", line: "#9aa3a6", paper: "#fff" });
  const url = await Plotly.toImage({ data: figure.data, layout: { ...layout, width, height } }, { format, width, height, scale: 2 });
  const [head, body] = [url.slice(0, url.indexOf(",")), url.slice(url.indexOf(",") + 1)];
  const bytes = head.endsWith("base64") ? Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0)) : decodeURIComponent(body);
  save(new Blob([bytes], { type: head.slice(5).split(";")[0] }), `${name}.${format}`);
}

const guarded = (text) => /^[=+\-@]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // no formula in a spreadsheet
const quoted = (value) => { const text = value == null ? "" : guarded(String(value)); return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
const csv = (columns, rows) => [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";

// The numbers of a figure: one row per point of a line, one per square of a heat map.
function numbers(figure) {
  const rows = figure.data.flatMap((trace) => trace.z
    ? trace.z.flatMap((row, i) => Array.from(row, (z, j) => [trace.name, trace.x?.[j] ?? j, trace.y?.[i] ?? i, z]))
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
  const own = { ...layout, paper_bgcolor: paper, plot_bgcolor: layout.plot_bgcolor ?? "rgba(0,0,0,0)", font: { family: "system-ui, sans-serif", size: 12, ...layout.font, color: ink } };
  for (const name of Object.keys(layout)) {
    if (/^[xy]axis\d*$/.test(name)) own[name] = { gridcolor: grid, zerolinecolor: grid, linecolor: line, tickcolor: line, ...layout[name] };
    if (/^[xy]axis\d*$/.test(name) && !("gridcolor" in layout[name])) own[name].gridcolor = grid;
  }
  own.hoverlabel = { align: "left", ...layout.hoverlabel };
  if (layout.sliders) own.sliders = layout.sliders.map((one) => ({ bgcolor: grid, bordercolor: line, tickcolor: line, ...one }));
  return own;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return { ink: colour("--ink"), grid: colour("--grid"), line: colour("--line"), paper: "rgba(0,0,0,0)" };
}

const drawn = new Map(); // the figures on the page by name, to draw them again in other colours

// A figure with its title, buttons to save it, and a place below for what the keyboard reads out.
async function chart(name, title, figure, data, given = {}) {
  panel(`chart ${name}`, title, () => make("section", { class: `card figure ${given.half ? "half" : ""}`, "aria-label": title },
    make("div", { class: "top" }, make("h2", {}, title), make("div", { class: "tools", role: "group", "aria-label": `Save: ${title}` },
      ["SVG", "PNG"].map((format) => make("button", { type: "button", click: () => {
        const { figure: now, div } = drawn.get(name);
        saveImage(now, format.toLowerCase(), name, Math.max(div.clientWidth, 600), div.clientHeight);
      } }, format)),
      make("button", { type: "button", click: async () => save(new Blob([await drawn.get(name).data()], { type: "text/csv" }), `${name}.csv`) }, "CSV"))),
    make("div", { class: "scroll" }, make("div", { class: "chart" }, make("div", { class: "plot" }))),
    make("p", { class: "reading", "aria-live": "polite", hidden: !given.readable }),
    make("p", { class: "hint", hidden: !given.hint }, given.hint)));
  const section = panels.get(`chart ${name}`).node, div = section.querySelector(".plot");
  const across = new Set(Object.keys(figure.layout).filter((key) => /^xaxis/.test(key)).map((key) => String(figure.layout[key].domain))).size;
  section.querySelector(".chart").style.minWidth = across > 1 ? `${across * 16}rem` : ""; // a phone scrolls the chart, not the page
  const fresh = !div.classList.contains("js-plotly-plot");
  drawn.set(name, { figure, div, data: data ?? (() => numbers(figure)) });
  const { width, ...layout } = coloured(figure.layout, theme());
  layout.autosize = true;
  layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : layout.dragmode ?? "zoom"; // fingers scroll the page
  layout.uirevision = given.revision ?? title;
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
  await Plotly[fresh ? "newPlot" : "react"](div, { data: figure.data, layout, frames: figure.frames ?? [], config });
  return { section, div, fresh };
}

dark.addEventListener("change", () => { panels.forEach((_, name) => name.startsWith("chart") && redraw(name.slice(6))); });

function redraw(name) {
  const { figure, div } = drawn.get(name);
  const { width, ...layout } = coloured(figure.layout, theme());
  Plotly.react(div, figure.data, { ...layout, autosize: true });
}

// ---- controls ----

function choice(name, label, options, chosen, change) {
  const id = `choose-${name}`;
  return make("label", { for: id }, label, make("select", { id, value: chosen, change: (event) => change(event.target.value) },
    options.map((one) => make("option", { value: one.name, selected: one.name === chosen, disabled: one.disabled }, one.label ?? one.name))));
}

function slider(axis, chosen, change) {
  const id = `slide-${axis.name}`;
  return make("label", { class: "slider", for: id }, make("span", {}, `${axis.label} = `, make("output", { id: `${id}-value`, for: id }, chosen)),
    make("input", { id, type: "range", min: 0, max: axis.values.length - 1, step: 1, value: Math.max(axis.values.indexOf(chosen), 0),
      "aria-valuetext": chosen, disabled: !offered(`at.${axis.name}`, (value) => value !== chosen),
      input: (event) => {
        slide(axis, axis.values[event.target.value]);
        change(axis.values[event.target.value]);
      } }));
}

// Move a slider that is there; the hand on it is not disturbed.
function slide(axis, value) {
  const input = document.getElementById(`slide-${axis.name}`), place = axis.values.indexOf(value);
  if (input !== document.activeElement) input.value = place;
  input.setAttribute("aria-valuetext", value);
  document.getElementById(`${input.id}-value`).textContent = value;
}

const check = (name, label, on, disabled, change) => make("label", { class: "check", for: `check-${name}` },
  make("input", { id: `check-${name}`, type: "checkbox", checked: on, disabled, change: (event) => change(event.target.checked) }), label);

// Whether the file has a map with such a value; the server has all.
const offered = (name, which) => !report || report.maps.some((one) => which(flattened(one.view)[name]));

function axisChoices(store, given) {
  return store.axes.map((axis) => ({ name: axis.name, label: axis.label, disabled: !offered(given, (value) => value === axis.name) }));
}

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
    if (source?.readyState === EventSource.OPEN) regain();
  } catch (error) {
    if (mine !== turn) return;
    if (error instanceof Gone) { lose(); return; }
    clear();
    panel("wrong", error.message, () => make("section", { class: "card wrong", role: "alert" },
      make("h2", {}, "This cannot be shown"), make("p", {}, error.message)));
    if (!(error instanceof Refused)) throw error;
  }
}

// The frame around every view: stores, tabs, progress.
function frame(name, store, stores) {
  document.title = `${views[name].title} · ${store.name} · elegans`;
  const list = document.getElementById("stores"), select = document.getElementById("store");
  list.hidden = stores.length < 2;
  if (select.length !== stores.length) {
    select.replaceChildren(...stores.map((one) => make("option", { value: one.index }, one.name)));
    select.addEventListener("change", () => { Object.keys(latest).forEach((view) => delete latest[view]); go({ view: "map", store: select.value }); });
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
  if (report) document.getElementById("live").textContent = `written ${report.written}`;
}

const bar = (run) => make("progress", { max: run.trials, value: run.done, "aria-label": `Progress of ${run.name}` });

function pace(run) {
  const parts = [`${run.name}: ${number(run.done)} of ${many(run.trials, "trial")}`];
  if (run.per_second) parts.push(`${short.format(run.per_second)} per second`);
  if (run.seconds_left != null) parts.push(`${clock(run.seconds_left)} left`);
  return parts.join(" · ");
}

// ---- overview ----

const chip = (word) => make("span", { class: `verdict ${word.replaceAll(" ", "-")}` }, word);

function drawOverview(store, query) {
  panel("head", [store.name, store.cells, store.trials], () => make("div", {}, make("h1", {}, store.name),
    make("p", { class: "lead" }, `${many(store.trials, "trial")} in ${many(store.cells, "cell")}`)));
  panel("states", store.states, () => statesCard(store));
  panel("experiments", store.experiments, () => make("div", {}, store.experiments.map((one) => make("section", { class: "card" },
    make("h2", {}, one.name + (one.scale ? ` at scale ${one.scale}` : "")), make("p", { class: "lead" }, one.title),
    make("ul", { class: "claims" }, one.verdicts.map((verdict) => make("li", {}, chip(verdict.verdict), " ", make("strong", {}, verdict.id),
      report?.claims[verdict.id] && make("p", {}, report.claims[verdict.id]), make("p", { class: "hint" }, verdict.because))))))));
  panel("runs", store.runs, () => make("section", { class: "card", hidden: !store.runs.length }, make("h2", {}, "Runs"),
    table(["run", "state", "progress", "trials", "per second", "left", "host"], store.runs.map((run) => [run.name, run.state, bar(run),
      `${number(run.done)} of ${number(run.trials)}`, run.per_second ? short.format(run.per_second) : "–",
      run.seconds_left == null ? "–" : clock(run.seconds_left), `${run.host} (${run.pid})`]), { label: "Runs" })));
  panel("axes", store.axes, () => make("section", { class: "card", hidden: !store.axes.length }, make("h2", {}, "What is swept"),
    make("dl", {}, store.axes.map((axis) => [make("dt", {}, axis.label), make("dd", {}, listed(axis.values))]))));
  const failed = store.states.failed ?? 0;
  panel("failures", [store.failures, failed], () => make("section", { class: "card", hidden: !store.failures.length },
    make("h2", {}, failed > store.failures.length ? `Failures: the last ${store.failures.length} of ${number(failed)}` : "Failures"),
    table(["cell", "seed", "reason"], store.failures.map((one) => [inside({ view: "cell", store: store.index, cell: one.cell }, {}, one.cell),
      one.seed, one.reason]), { label: "Failures" })));
  if (report) panel("record", report.record, () => make("section", { class: "card" }, make("h2", {}, "Record"),
    make("dl", {}, Object.entries(report.record).map(([name, value]) => [make("dt", {}, name), make("dd", {}, said(value))]))));
}

const listed = (values) => values.length <= 12 ? values.join(", ") : `${values.slice(0, 6).join(", ")} … ${values.slice(-3).join(", ")} (${values.length})`;

function statesCard(store) {
  const counts = STATES.filter((state) => store.states[state]).map((state) => [state, store.states[state]]);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const part = ([state, count]) => {
    const node = make("div", { class: state });
    node.style.flex = `${count / total} 0 0`;
    return node;
  };
  return make("section", { class: "card" }, make("h2", {}, "Trials"), make("div", { class: "states", "aria-hidden": "true" }, counts.map(part)),
    make("div", { class: "key" }, counts.map(([state, count]) => make("span", {}, make("i", { class: state }), `${number(count)} ${state}`))));
}

// ---- map ----

async function drawMap(answer, store, query) {
  const { view } = answer;
  const keep = (changes) => ({ view: "map", ...stored(query), ...flattened(view), ...changes });
  history.replaceState(null, "", link(keep({})));
  latest.map = String(new URLSearchParams({ ...stored(query), ...flattened(view) }));
  // An axis that takes another's place changes places with it.
  const place = (which, name) => {
    const now = { x: view.x, y: view.y ?? "", facet: view.facet ?? "" };
    const other = Object.keys(now).find((key) => key !== which && now[key] === name);
    go(keep({ ...now, ...(other ? { [other]: now[which] } : {}), [which]: name }));
  };
  const sliders = Object.entries(view.at).map(([name, value]) => [store.axes.find((axis) => axis.name === name), value])
    .filter(([axis]) => axis?.values.length > 1);
  panel("controls", [{ ...view, at: Object.keys(view.at) }, store.axes, store.statistics], () => make("section", { class: "card controls", "aria-label": "What the map shows" },
    choice("stat", "Colour", store.statistics.map((one) => ({ ...one, disabled: !offered("stat", (value) => value === one.name) })), view.stat, (value) => go(keep({ stat: value }))),
    store.axes.length > 0 && choice("x", "x axis", axisChoices(store, "x"), view.x, (value) => place("x", value)),
    store.axes.length > 1 && choice("y", "y axis", axisChoices(store, "y"), view.y, (value) => place("y", value)),
    store.axes.length > 2 && choice("facet", "Facets", [{ name: "", label: "none" }, ...axisChoices(store, "facet").filter((one) => one.name !== view.x && one.name !== view.y)],
      view.facet ?? "", (value) => place("facet", value)),
    sliders.map(([axis, value]) => slider(axis, value, (chosen) => go({ ...current(), [`at.${axis.name}`]: chosen }, true))),
    check("contour", "Contour", view.contour, !offered("contour", (value) => value !== flattened(view).contour), (on) => go(keep({ contour: on ? "1" : "0" }))),
    view.theories && check("theory", "Theory", view.theory, !offered("theory", (value) => value !== flattened(view).theory), (on) => go(keep({ theory: on ? "1" : "0" })))));
  sliders.forEach(([axis, value]) => slide(axis, value));
  const asked = new URLSearchParams({ kind: "map", ...stored(query), ...flattened(view) });
  const data = report ? () => report.csv : async () => (await reach(`api/csv?${asked}`)).text();
  const { section, div, fresh } = await chart("map", answer.title, answer.figure, data, { readable: true, revision: answer.query,
    hint: "Click a square to see its trials. In the map, arrow keys move from cell to cell, Enter opens one." });
  const open = (cell) => cell != null && go({ view: "cell", ...stored(query), cell });
  const cursor = grid(section, div, open);
  if (fresh) {
    div.on("plotly_click", (event) => open(cellOf(event.points[0])));
    div.on("plotly_afterplot", () => cursor.place());
  }
  cursor.place();
}

const stored = (query) => query.has("store") ? { store: query.get("store") } : {};
const cellOf = (point) => Array.isArray(point?.customdata) ? point.customdata[0] : point?.customdata;

// Arrow keys in a map: a frame around one square, kept where it is while the map fills in.
function grid(section, div, open) {
  const box = section.querySelector(".chart");
  if (box.cursor) return Object.assign(box.cursor, { open });
  const square = make("div", { class: "cursor", hidden: true });
  box.append(square);
  Object.assign(box, { tabIndex: 0 });
  box.setAttribute("role", "application");
  box.setAttribute("aria-label", "Map: arrow keys move from cell to cell, Enter opens one");
  const at = { pane: 0, row: 0, column: 0 };
  const traces = () => div.data.map((trace, place) => ({ ...trace, place })).filter((trace) => trace.type === "heatmap" && trace.customdata);
  const cursor = { open, place() {
    const trace = traces()[at.pane];
    square.hidden = !trace || !box.matches(":focus-within");
    if (square.hidden) return;
    const [x, y] = ["x", "y"].map((letter) => div._fullLayout[(trace[`${letter}axis`] ?? letter).replace(letter, `${letter}axis`)]);
    const middle = (axis, values, index) => axis._offset + axis.d2p(values?.[index] ?? index);
    const size = (axis, values, index, count) => count < 2 ? axis._length
      : Math.abs(middle(axis, values, index) - middle(axis, values, index ? index - 1 : 1));
    const width = size(x, trace.x, at.column, trace.z[0].length), height = size(y, trace.y, at.row, trace.z.length);
    Object.assign(square.style, { left: `${middle(x, trace.x, at.column) - width / 2}px`, top: `${middle(y, trace.y, at.row) - height / 2}px`, width: `${width}px`, height: `${height}px` });
  }, read() {
    const trace = traces()[at.pane];
    const told = trace.text?.[at.row]?.[at.column] ?? trace.hovertext?.[at.row]?.[at.column];
    section.querySelector(".reading").textContent = told ? plain(told) : trace.customdata[at.row][at.column] == null ? "no cell" : said(trace.z[at.row][at.column]);
  } };
  const moves = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  box.addEventListener("keydown", (event) => {
    const panes = traces();
    if (!panes.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const trace = panes[at.pane];
    if (event.key === "Enter") cursor.open(cellOf({ customdata: trace.customdata[at.row][at.column] }));
    else if (moves[event.key]) {
      event.preventDefault();
      const upright = (div._fullLayout[(trace.yaxis ?? "y").replace("y", "yaxis")].range ?? [0, 1]);
      const [rise, right] = moves[event.key];
      at.row = Math.min(Math.max(at.row + (upright[0] <= upright[1] ? rise : -rise), 0), trace.z.length - 1);
      at.column += right;
      if (at.column < 0 || at.column >= trace.z[0].length) { // over the edge lies the next facet
        const next = at.pane + right;
        at.column = panes[next] ? (right > 0 ? 0 : panes[next].z[0].length - 1) : at.column - right;
        at.pane = panes[next] ? next : at.pane;
      }
      cursor.place();
      cursor.read();
    }
  });
  box.addEventListener("focus", () => { cursor.place(); cursor.read(); });
  box.addEventListener("blur", () => cursor.place());
  box.cursor = cursor;
  return cursor;
}

// ---- cell ----

function askCell(query) {
  if (!query.has("cell")) throw new Refused("a cell must be chosen first: click a square of the map");
  const asked = new URLSearchParams(query);
  asked.delete("cell");
  return ask(`cell/${encodeURIComponent(query.get("cell"))}`, asked);
}

async function drawCell(answer, store, query) {
  const counts = Object.entries(answer.counts).filter(([, count]) => count).map(([name, count]) => `${said(count)} ${name.replaceAll("_", " ")}`);
  panel("head", [answer.columns, answer.counts], () => make("div", {},
    make("p", {}, inside(`view=map&${latest.map ?? new URLSearchParams(stored(query))}`, {}, "← Map")),
    make("h1", {}, `Cell ${answer.cell}`), make("p", { class: "lead" }, counts.join(" · ")),
    make("section", { class: "card" }, make("dl", {}, Object.entries(answer.columns).map(([name, value]) => [make("dt", {}, name), make("dd", {}, said(value))])))));
  for (const one of answer.figures.filter((each) => each.name !== "measure")) await chart(one.name, one.title, one.figure, null, { half: true });
  if (answer.measures.length) {
    const chosen = query.get("measure") ?? answer.measures[0];
    panel("measures", [answer.measures, chosen], () => make("section", { class: "card controls" },
      choice("measure", "Measure", answer.measures.map((name) => ({ name })), chosen, (measure) => go({ view: "cell", ...stored(query), cell: answer.cell, measure }))));
  }
  for (const one of answer.figures.filter((each) => each.name === "measure")) await chart(one.name, one.title, one.figure);
  panel("failures", answer.failures, () => make("section", { class: "card", hidden: !answer.failures.length }, make("h2", {}, "Failed trials"),
    answer.failures.map((one) => make("details", { open: answer.failures.length === 1 }, make("summary", {}, `seed ${one.seed}`), make("pre", { tabindex: "0" }, one.traceback)))));
  const total = answer.trials_total ?? answer.trials.length;
  const columns = ["seed", "state", "solved_at", "test_error", "seconds", "error"];
  panel("trials", [answer.trials, total], () => make("section", { class: "card figure" }, make("div", { class: "top" },
    make("h2", {}, total > answer.trials.length ? `Trials: ${number(answer.trials.length)} of ${number(total)}` : "Trials"),
    make("div", { class: "tools" }, make("button", { type: "button", click: () => saveTrials(answer, columns, query) }, "CSV"))),
    table(["seed", "state", "steps to solve", "test error", "seconds", "error"], answer.trials.map((trial) => columns.map((name) => trial[name])), { label: "Trials" })));
  panel("copy", [answer.copy, answer.more], () => make("section", { class: "card" }, make("h2", {}, "Repeat it"),
    [["python", "In Python"], ["toml", "As TOML"], ["command", "On the command line"]].map(([key, label]) => answer.copy[key] && [make("h3", {}, label), copied(answer.copy[key], label)]),
    answer.more && [make("h3", {}, "Run 20 more seeds"), copied(answer.more, "Run 20 more seeds")]));
}

async function saveTrials(answer, columns, query) {
  const asked = new URLSearchParams({ ...stored(query), kind: "cell", cell: answer.cell });
  const text = report ? csv(columns, answer.trials.map((trial) => columns.map((name) => trial[name]))) : await (await reach(`api/csv?${asked}`)).text();
  save(new Blob([text], { type: "text/csv" }), `cell-${answer.cell}.csv`);
}

// ---- compare ----

async function drawCompare(answer, store, query, all) {
  const chosen = new URLSearchParams(answer.query);
  chosen.delete("view");
  if (query.has("store")) chosen.set("store", query.get("store"));
  history.replaceState(null, "", link([["view", "compare"], ...chosen]));
  latest.compare = String(chosen);
  const now = Object.fromEntries(chosen);
  const set = (changes) => go({ view: "compare", ...Object.fromEntries(Object.entries({ ...now, ...changes }).filter(([, value]) => value != null)) });
  const by = store.axes.find((axis) => axis.name === now.by);
  const others = all.filter((one) => one.index !== store.index);
  const other = now.other ?? "";
  const plainly = (values) => values.map((name) => ({ name }));
  panel("controls", [now, store.axes, store.statistics, others.length], () => make("section", { class: "card controls", "aria-label": "What is compared" },
    choice("stat", "Compare", store.statistics, now.stat, (stat) => set({ stat })),
    others.length > 0 && choice("other", "With", [{ name: "", label: "this store" }, ...others.map((one) => ({ name: String(one.index), label: one.name }))], other,
      (value) => set(value ? { other: value, by: null, a: null, b: null } : { other: null })),
    !other && choice("by", "by", axisChoices(store, "by"), now.by, (value) => set({ by: value, a: null, b: null, x: null, y: null })),
    !other && by && [choice("a", "a", plainly(by.values), now.a, (a) => set({ a })), choice("b", "b", plainly(by.values), now.b, (b) => set({ b }))],
    now.x != null && choice("x", "x axis", axisChoices(store, "x").filter((one) => one.name !== now.by), now.x, (x) => set(x === now.y ? { x, y: now.x } : { x })),
    now.y != null && choice("y", "y axis", axisChoices(store, "y").filter((one) => one.name !== now.by), now.y, (y) => set(y === now.x ? { y, x: now.y } : { y })),
    store.axes.filter((axis) => `at.${axis.name}` in now && axis.values.length > 1).map((axis) => slider(axis, now[`at.${axis.name}`], (value) => set({ [`at.${axis.name}`]: value })))));
  const asked = new URLSearchParams({ ...now, kind: "compare" });
  const { section, div, fresh } = await chart("compare", answer.title ?? "Difference, with its 95% interval", answer.figure, async () => (await reach(`api/csv?${asked}`)).text(), { readable: true });
  const cursor = grid(section, div, (cell) => cell != null && go({ view: "cell", ...stored(query), cell }));
  if (fresh) div.on("plotly_afterplot", () => cursor.place());
  const names = Object.keys(answer.rows[0]?.columns ?? {});
  panel("rows", answer.rows, () => make("section", { class: "card", hidden: !answer.rows.length }, make("h2", {}, "Cell by cell"),
    table([...names, "a", "b", "difference", "95% interval", "trials", "paired"], answer.rows.map((row) => [...names.map((name) => row.columns[name]), row.a, row.b, row.difference,
      `${number(row.low)} to ${number(row.high)}`, row.n, row.paired ? "yes" : "no"]), { label: "Differences" }),
    make("p", { class: "hint", hidden: answer.rows.length <= SHOWN_ROWS }, `The first ${SHOWN_ROWS} of ${number(answer.rows.length)}; the CSV has all.`)));
}

// ---- live: told of every commit; a server that is gone is waited for ----

let source, busy = false, again = false;

async function update() {
  if (busy) { again = true; return; }
  busy = true;
  await show();
  busy = false;
  if (again) { again = false; update(); }
}

function lose() {
  lost.textContent = "The server has gone: what is shown stays as it was. Trying to reach it again …";
  lost.hidden = false;
  document.getElementById("live").textContent = "";
}

function regain() {
  lost.hidden = true;
  document.getElementById("live").textContent = "live";
  document.getElementById("live").classList.add("alive");
}

function listen() {
  source = new EventSource("api/events");
  source.addEventListener("change", update);
  source.addEventListener("open", () => { if (!lost.hidden) update(); });
  source.addEventListener("error", () => {
    lose();
    source.close();
    setTimeout(listen, 2000);
  });
}

if (!report) {
  listen();
  addEventListener("pagehide", () => source.close());
}
show();
