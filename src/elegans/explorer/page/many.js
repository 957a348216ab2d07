// Views of many cells: the table of trials, curves of several cells, and which parameters matter.
"use strict";

// ---- cells that are chosen on the map ----

const picked = new Set();
let choosing = false; // whether a click on a square chooses it, which a finger needs

function pick(cell) {
  if (!picked.delete(cell)) picked.add(cell);
  drawPicked();
}

// What is to be done with the chosen cells; their squares have a frame.
function drawPicked() {
  document.querySelector(".chart").place?.();
  const cells = [...picked].join(",");
  panel("picked", cells, () => picked.size > 0 && make("section", { class: "card controls", role: "status" },
    make("span", {}, `${many(picked.size, "cell")} chosen`),
    inside({ view: "curves", ...stored(address()), cells }, { class: "button", id: "open-curves" }, "Show their curves"),
    make("button", { type: "button", id: "clear-picked", click: () => { picked.clear(); drawPicked(); } }, "Clear")));
}

// ---- curves of several cells ----

function askCurves(query) {
  if (!query.get("cells")) throw new Refused("choose cells first: on the map, click their squares with Shift, or tick “Choose several”");
  return ask("curves", Object.fromEntries(query));
}

async function drawCurves(answer, store, query) {
  const now = { view: "curves", ...stored(query), cells: answer.cells.join(",") };
  panel("controls", [answer.known, answer.what], () => answer.known.length > 0 && controls("The curves shown",
    choice("what", "Curves", answer.known.map((name) => ({ name })), answer.what, (what) => go({ ...now, what }))));
  if (answer.figure) await chart("curves", answer.title, answer.figure, { hint: "Lines are medians over trials; bands lie between the quartiles." });
  else panel("none", 0, () => hint("These cells have no curves: their trials were recorded without them."));
  const open = (row) => inside({ view: "cell", ...stored(query), cell: row.cell }, {}, row.name);
  panel("rows", answer.rows, () => card("Cells", table("Cells", ["cell", "trials", ...store.statistics.filter((one) => one.compared).map((one) => one.label)],
    answer.rows.map((row) => [open(row), row.trials, row.rate, row.median_steps, row.test_error, row.seconds]))));
}

// ---- filters that trials and parameters share ----

const ANY = { name: "", label: "any" };
const filters = (store, query, set) => store.axes.filter((axis) => axis.values.length > 1).map((axis) => choice(`at-${axis.name}`, axis.label,
  [ANY, ...axis.values.map((name) => ({ name }))], query.get(`at.${axis.name}`) ?? "", (value) => set({ [`at.${axis.name}`]: value })));
const filled = (query) => Object.fromEntries([...query].filter(([, value]) => value !== ""));

// ---- all trials ----

const TRIALS = { seed: "seed", state: "state", solved_at: "steps to solve", test_error: "test error", train_error: "train error",
  steps: "steps", seconds: "seconds", engine: "engine" };

let trialsShown = "";

function drawTrials(answer, store, query) {
  const now = { view: "trials", ...filled(query) };
  const set = (changes, replace) => go(Object.entries({ ...now, offset: "", ...changes }).filter(([, value]) => value !== ""), replace);
  const filtered = Object.entries(now).filter(([name]) => !["sort", "offset", "q"].includes(name));
  let waiting;
  const search = (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => set({ q: event.target.value }, true), 250);
  };
  panel("controls", [filtered, store.axes], () => controls("The trials shown",
    make("label", { for: "search", class: "wide" }, "Search", make("input", { id: "search", type: "search", value: query.get("q") ?? "",
      placeholder: "width>=100 solved_at<500 failed", input: search, "aria-describedby": "search-help" })),
    choice("state", "State", [ANY, ...STATES.slice(0, 5).map((name) => ({ name }))], query.get("state") ?? "", (state) => set({ state })),
    filters(store, query, set),
    make("p", { class: "hint wide", id: "search-help" }, "Words are searched for in values and tracebacks; conditions compare columns.")));
  const input = document.getElementById("search");
  if (input !== document.activeElement) input.value = query.get("q") ?? "";
  const { rows, total, offset, page } = answer, [sort, down] = [(now.sort ?? "cell").replace(/^-/, ""), now.sort?.startsWith("-")];
  const sorted = (name, label) => make("button", { type: "button", id: `sort-${name}`, class: "sort",
    click: () => set({ sort: sort === name && !down ? `-${name}` : name }) }, label, sort === name && (down ? " ▼" : " ▲"));
  const heads = [...store.axes.map((axis) => [axis.name, axis.word]), ...Object.entries(TRIALS)];
  const open = (row) => inside({ view: "cell", ...stored(query), cell: row.cell }, { "aria-label": `Cell of seed ${row.seed}` }, String(row.seed));
  const move = (id, label, to) => make("button", { type: "button", id: `page-${id}`, disabled: to === offset || to < 0 || to >= Math.max(total, 1),
    click: () => set({ offset: to ? String(to) : "" }) }, label);
  const last = Math.max(0, Math.floor((total - 1) / page) * page);
  const range = total ? `${number(offset + 1)} to ${number(offset + rows.length)} of ${many(total, "trial")}` : "No trial matches";
  const click = async () => saveText(await download({ kind: "trials", ...now, view: "", offset: "" }), "trials.csv");
  panel("trials", [answer, now], () => {
    const shown = table("All trials", heads.map(([name, label]) => sorted(name, label)), rows.map((row) => [...row.axes, open(row),
      row.state, row.solved_at, row.test_error, row.train_error, row.steps, row.seconds, row.engine]), "tall");
    shown.querySelectorAll("th").forEach((head, place) => {
      if (heads[place][0] === sort) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
    return make("section", { class: "card figure" }, make("div", { class: "top" }, make("h2", { role: "status" }, range),
      make("div", { class: "tools" }, make("button", { type: "button", click }, "CSV"))), shown,
    make("nav", { class: "pages", "aria-label": "Pages" }, move("first", "First", 0), move("before", "Previous", Math.max(offset - page, offset ? 0 : -1)),
      move("next", "Next", offset + page), move("last", "Last", last)));
  }, JSON.stringify(now) === trialsShown); // trials that come in do not move the table
  trialsShown = JSON.stringify(now);
}

// ---- which parameters matter ----

async function drawParameters(answer, store, query) {
  const now = { view: "parameters", ...filled(query) }, stat = query.get("stat") ?? "rate";
  const set = (changes) => go(Object.entries({ ...now, ...changes }).filter(([, value]) => value !== ""));
  const enough = Boolean(answer.importance); // else the explanation says what is lacking
  if (panels.has("explanation") && panels.has("chart importance") !== enough) clear();
  panel("controls", [now, store.axes, store.statistics], () => controls("What is explained",
    choice("stat", "Explain", store.statistics, stat, (one) => set({ stat: one })), filters(store, query, set)));
  const label = store.statistics.find((one) => one.name === stat)?.label ?? stat;
  if (enough) await chart("importance", `Which parameters matter for the ${label}`, answer.importance);
  panel("explanation", answer.explanation, () => make("div", { class: "card" }, answer.explanation.map((text) => make("p", {}, text))));
  if (!enough) return;
  const { div, fresh } = await chart("parallel", `Each line is a cell, coloured by its ${label}`, answer.parallel, {
    wide: store.axes.length + 1, hint: "Click on the legend to hide a colour, double-click to show it alone. Click on a line to open its cell." });
  if (fresh) div.on("plotly_click", (event) => go({ view: "cell", ...stored(address()), cell: event.points[0].customdata }));
}
