// Elements, words and numbers, the address, answers and saving: what every view of the page needs.
"use strict";

const report = JSON.parse(document.getElementById("report")?.textContent ?? "null");
const [main, lost, live] = ["main", "lost", "live"].map((id) => document.getElementById(id));
const STATES = ["solved", "unsolved", "diverged", "failed", "interrupted", "running", "missing"];
const SHOWN_ROWS = 500;
const POINTS = "Click a point to see its trials, or follow its link in the table below.";
const HINT = "Click a square to see its trials. In the map, arrow keys move from cell to cell, Enter opens one.";
const CHOOSE = " With Shift, or by the space bar, choose several and see their curves together.";
const FIGURES = /^[−\d][\d.,e−+]*%?$|^[−\d][\d.,]* to /; // texts that are numbers
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

function panel(name, shows, build, scrolled = false) {
  const text = JSON.stringify(shows);
  const before = panels.get(name);
  if (before?.text === text) return;
  const node = build() || make("div", { hidden: true });
  const focused = before?.node.contains(document.activeElement) ? document.activeElement.id : "";
  const { scrollLeft = 0, scrollTop = 0 } = scrolled && before?.node.querySelector(".scroll") || {};
  if (before) before.node.replaceWith(node);
  else main.append(node);
  panels.set(name, { text, node });
  if (scrollTop || scrollLeft) node.querySelector(".scroll")?.scrollTo(scrollLeft, scrollTop);
  if (focused) document.getElementById(focused)?.focus();
}

function clear() {
  drawn.forEach(({ div }) => globalThis.Plotly?.purge(div));
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
const capital = (text) => /^\w\b/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1); // a symbol stays: m = 1000
const plain = (text) => new DOMParser().parseFromString(String(text).replace(/<br *\/?>/g, " · "), "text/html").body.textContent;

function clock(seconds) { // the units of `span` in display.py
  const [unit, name] = [[1, "s", 99.5], [60, "min", 99.5], [3600, "h", 47.5]].find(([one, , end]) => seconds < end * one)
    ?? [86400, "days"];
  return `${(seconds / unit).toFixed(seconds < 9.95 * unit && seconds > 0 ? 1 : 0)} ${name}`;
}

function table(label, columns, rows, size = "long") {
  const numeric = columns.map((_, place) => rows.some(({ [place]: one }) => typeof one === "number" || FIGURES.test(one?.textContent ?? one)));
  const line = (tag, values) => make("tr", {}, values.map((value, place) =>
    make(tag, { class: numeric[place] && "number" }, value?.nodeType ? value : said(value))));
  return make("div", { class: `scroll ${size}`, tabindex: "0", role: "region", "aria-label": label }, make("table", {},
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
