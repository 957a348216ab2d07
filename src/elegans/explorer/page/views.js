// The views of cells: overview, map, one cell, comparisons.
"use strict";

// ---- overview ----

function drawOverview(store) {
  panel("head", [store.name, store.cells, store.trials], () => make("div", {}, make("h1", {}, store.name),
    make("p", { class: "lead" }, `${many(store.trials, "trial")} in ${many(store.cells, "cell")}`)));
  panel("states", store.states, () => statesCard(store));
  panel("experiments", store.experiments, () => make("div", {}, store.experiments.map((one) => card(
    one.name + (one.scale ? ` at scale ${one.scale}` : ""), make("p", { class: "lead" }, one.title),
    make("ul", { class: "claims" }, one.verdicts.map(claim))))));
  panel("runs", store.runs, () => store.runs.length > 0 && card("Runs", table("Runs",
    ["run", "state", "progress", "trials", "per second", "left", "host"], store.runs.map((run) => [run.name, run.state,
      run.state === "superseded" ? null : bar(run), `${number(run.done)} of ${number(run.trials)}`, run.per_second ? short.format(run.per_second) : null,
      run.seconds_left == null ? null : clock(run.seconds_left), run.host ? `${run.host} (${run.pid})` : null]))));
  panel("axes", store.axes, () => store.axes.length > 0 && card("What is swept",
    terms(store.axes.map((axis) => [axis.label, listed(axis.values)]))));
  const failed = store.states.failed ?? 0, most = store.failures.length;
  const open = ({ cell, name }) => inside({ view: "cell", store: store.index, cell }, {}, name);
  panel("failures", [store.failures, failed], () => most > 0 && card(failed > most ? `Failures: ${most} of ${number(failed)}` : "Failures",
    table("Failures", ["cell", "seed", "reason"], store.failures.map((one) => [open(one), one.seed, one.reason]))));
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
  panel("controls", [{ ...view, at: Object.keys(view.at) }, store.axes, store.statistics], () => controls("Settings of the map",
    choice("stat", "Colour", choices(store.statistics, "stat"), view.stat, (stat) => set({ stat })),
    store.axes.length > 0 && choice("x", "x axis", choices(store.axes, "x"), view.x, place("x")),
    store.axes.length > 1 && choice("y", "y axis", choices(store.axes, "y"), view.y, place("y")),
    free.length > 0 && choice("facet", "Panels", [{ name: "", label: "none" }, ...choices(free, "facet")], flat.facet, place("facet")),
    sliders.map((axis) => slider(axis, view.at[axis.name], (value) => go(merged({ [`at.${axis.name}`]: value }), true))),
    check("contour", "Contour", view.contour, (contour) => set({ contour })),
    view.theories && check("theory", "Theory", view.theory, (theory) => set({ theory })),
    !report && make("label", { class: "check", for: "choosing" }, make("input", { id: "choosing", type: "checkbox", checked: choosing,
      change: (event) => { choosing = event.target.checked; } }), "Choose several")));
  sliders.forEach((axis) => slide(axis, view.at[axis.name]));
  const data = () => report ? report.csv : download({ kind: "map", ...flat });
  const { section, div, fresh } = await chart("map", answer.title, answer.figure, { data, revision: answer.query, hint: HINT + (report ? "" : CHOOSE) });
  grid(section, div, fresh, (cell, more) => !report && (more || choosing) ? pick(cell) : go({ view: "cell", ...stored(query), cell }));
  if (picked.size) drawPicked();
}

// Squares that open: by a click, and by arrow keys, which move a frame around one of them.
function grid(section, div, fresh, open) {
  const box = section.querySelector(".chart");
  box.open = open;
  if (!fresh) { box.place?.(); return; }
  const square = make("div", { class: "cursor", hidden: true });
  box.append(square);
  const at = { pane: 0, row: 0, column: 0 };
  const panes = () => (div._fullData ?? []).filter((trace) => trace.type === "heatmap" && trace.customdata);
  const axis = (trace, letter) => div._fullLayout[(trace[`${letter}axis`] ?? letter).replace(letter, `${letter}axis`)];
  // Where a square begins and how long it is in pixels along one axis.
  const span = (trace, letter, index, count) => {
    const own = axis(trace, letter), middle = (place) => own._offset + own.d2p(trace[letter]?.[place] ?? place);
    const size = count < 2 ? own._length : Math.abs(middle(index) - middle(index ? index - 1 : 1));
    return [middle(index) - size / 2, size];
  };
  const framed = (trace, row, column, frame) => {
    const [left, width] = span(trace, "x", column, trace.z[0].length), [top, height] = span(trace, "y", row, trace.z.length);
    for (const [name, size] of Object.entries({ left, top, width, height })) frame.style[name] = `${size}px`;
    return frame;
  };
  const frames = () => panes().flatMap((trace) => trace.customdata.flatMap((cells, row) => cells.flatMap((cell, column) =>
    picked.has(cellOf({ customdata: cell })) ? [framed(trace, row, column, make("div", { class: "cursor picked" }))] : [])));
  box.place = () => {
    box.querySelectorAll(".picked").forEach((frame) => frame.remove());
    if (picked.size) box.append(...frames());
    const trace = panes()[at.pane];
    if (trace) Object.assign(box, { tabIndex: 0, role: "application", ariaLabel: "Map: arrow keys move from cell to cell, Enter opens one" });
    square.hidden = !trace || !box.matches(":focus-within");
    if (!square.hidden) framed(trace, at.row, at.column, square);
  };
  const read = () => {
    const trace = panes()[at.pane], told = trace?.hovertext?.[at.row]?.[at.column];
    section.querySelector(".reading").textContent = told ? plain(told) : "no cell here";
  };
  const chosen = (cell, more) => cell != null && box.open(cell, more);
  box.addEventListener("keydown", (event) => {
    const all = panes(), trace = all[at.pane];
    if (!trace || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") chosen(cellOf({ customdata: trace.customdata[at.row][at.column] }), event.key === " ");
    if (event.key === " ") event.preventDefault();
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
  div.on("plotly_click", (event) => chosen(cellOf(event.points[0]), event.event?.shiftKey));
  div.on("plotly_afterplot", () => box.place());
  box.place();
}

// ---- cell ----

function askCell(query) {
  if (!query.has("cell")) throw new Refused("choose a cell first: a square of the map, or a row of the trials");
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
    make("h1", {}, capital(answer.name)), make("p", { class: "lead" }, counts.join(" · ")),
    card("", described(own), make("details", {}, make("summary", {}, "All settings"),
      described(Object.keys(columns).filter((name) => !own.includes(name)))))));
  const [measured, others] = [true, false].map((wanted) => answer.figures.filter((one) => (one.name === "measure") === wanted));
  for (const one of others) await chart(one.name, one.title, one.figure, { half: true });
  const measure = query.get("measure") ?? measures[0];
  const choose = (one) => go({ view: "cell", ...stored(query), cell, measure: one });
  panel("measures", [measures, measure], () => measures.length > 0 && controls("The measure shown",
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
    data: () => download({ kind: "compare", ...now }), hint: now.y ? HINT : POINTS });
  grid(section, div, fresh, (cell) => go({ view: "cell", ...stored(query), cell }));
  const names = Object.keys(answer.rows[0]?.columns ?? {});
  const unit = answer.unit && ` (${answer.unit})`;
  const columns = [...names, ...answer.sides, `difference${unit}`, `95% interval${unit}`, "trials", "paired"];
  const line = ({ words, n, paired, columns: places, cell }) => {
    const [first, ...rest] = [...names.map((name) => places[name]), words.a, words.b, words.difference, words.interval];
    const label = names.map((name) => `${name} = ${places[name]}`).join(", ") || first;
    const open = inside({ view: "cell", ...stored(query), cell }, { "aria-label": `Cell: ${label}` }, first);
    return [open, ...rest, n, paired ? "yes" : "no"];
  };
  panel("rows", answer.rows, () => answer.rows.length > 0 && card("Cell by cell", table("Differences", columns, answer.rows.map(line)),
    answer.rows.length > SHOWN_ROWS && hint(`The first ${SHOWN_ROWS} of ${number(answer.rows.length)}; the CSV has all.`)));
}
