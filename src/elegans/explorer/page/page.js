// The page of `elegans explore`, and of the one file that `elegans report` writes. It shows what the server, or the file,
// hands over as JSON: figures by Plotly, everything else as text nodes, so that no name or traceback becomes markup.
"use strict";

// ---- views ----

const views = {
  overview: { title: "Overview", ask: () => null, draw: (_, ...page) => drawOverview(...page) },
  map: { title: "Map", ask: (query) => ask("map", query), draw: drawMap },
  cell: { title: "Cell", ask: askCell, draw: drawCell },
  curves: { title: "Curves", ask: askCurves, draw: drawCurves, hidden: Boolean(report) },
  trials: { title: "Trials", ask: (query) => ask("trials", Object.fromEntries(query)), draw: drawTrials, hidden: Boolean(report) },
  parameters: { title: "Parameters", ask: (query) => ask("parameters", Object.fromEntries(query)), draw: drawParameters, hidden: Boolean(report) },
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
    if (store.waiting) return wait(store, stores);
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
    panel("wrong", error.message, () => make("div", { role: "alert" }, card(capital(error.message),
      make("p", {}, inside({ view: "map", ...stored(query) }, {}, "Go to the map")))));
    if (!(error instanceof Refused)) console.error(error);
  }
}

function wait(store, stores) {
  frame("map", store, stores);
  clear();
  viewShown = "";
  panel("waiting", store.waiting, () => make("div", { role: "status" }, make("h1", {}, "Waiting for the first trials"),
    make("p", {}, `There is no store in ${store.name} yet. This page will show it as soon as a run has created it.`), hint(capital(store.waiting)),
    make("p", {}, "This command starts a run there:"), copied(store.command, "the command that starts a run"),
    make("p", { class: "hint" }, "It takes seconds. All experiments are listed by ", make("code", {}, "elegans list"), ".")));
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
      picked.clear();
      go({ view: "map", store: select.value });
    };
  }
  select.value = store.index;
  const at = stores.length > 1 ? { store: store.index } : {};
  const links = Object.entries(views).filter(([, view]) => !view.hidden).map(([key, view]) => {
    const last = new URLSearchParams(key === "curves" && picked.size ? { ...at, cells: [...picked].join(",") } : latest[key] ?? at);
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
  lost.textContent = yes ? "" : "The server has stopped. The page keeps what it shows and tries to reconnect …";
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
