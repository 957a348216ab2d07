// Figures by Plotly, and the controls beside them.
"use strict";

// ---- figures ----

const dark = matchMedia("(prefers-color-scheme: dark)");

function coloured(layout, { ink, grid, line, paper, card = "#fff" }) {
  const font = { family: "system-ui, sans-serif", size: 12, ...layout.font, color: ink };
  const own = { plot_bgcolor: "rgba(0,0,0,0)", ...layout, paper_bgcolor: paper, font, hoverlabel: { align: "left", ...layout.hoverlabel } };
  for (const name of Object.keys(layout).filter((one) => /^[xy]axis\d*$/.test(one))) {
    own[name] = { gridcolor: grid, zerolinecolor: grid, linecolor: line, tickcolor: line, ...layout[name] };
  }
  own.annotations = layout.annotations?.map((one) => one.bgcolor === "card" ? { ...one, bgcolor: card } : one);
  if (layout.sliders) own.sliders = layout.sliders.map((one) => ({ bgcolor: grid, bordercolor: line, tickcolor: line, ...one }));
  return own;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return { ink: colour("--ink"), grid: colour("--grid"), line: colour("--line"), paper: "rgba(0,0,0,0)", card: colour("--card") };
}

const NARROW = 560; // pixels below which a figure's panels lie below each other
let resized;
const plotting = new Promise((ready) => addEventListener("DOMContentLoaded", ready)); // Plotly comes last: its script is long
const drawn = new Map(); // the charts on the page by name: figure, where it is drawn, its numbers as CSV

async function draw({ figure, div, revision }) {
  const narrow = div.clientWidth < NARROW;
  const { width, ...layout } = coloured(narrow ? stacked(figure.layout) : figure.layout, theme());
  const fingers = matchMedia("(pointer: coarse)").matches; // they scroll the page
  const own = { ...layout, autosize: true, dragmode: fingers ? false : layout.dragmode ?? "zoom", uirevision: revision };
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
  await plotting;
  await Plotly.react(div, { data: figure.data, layout: own, frames: figure.frames ?? [], config });
  numbered(div);
}

// The panels of a figure below each other, as a phone has room for them, and its scale of colours below them.
function stacked(layout) {
  const names = Object.keys(layout).filter((name) => /^xaxis\d*$/.test(name)), last = names.length - 1;
  const bar = layout.coloraxis?.colorbar;
  const under = { orientation: "h", x: 0.5, xanchor: "center", y: 0, yref: "container", yanchor: "bottom", len: 1, title: { text: "" } };
  const own = { ...layout, ...bar && { coloraxis: { ...layout.coloraxis, colorbar: { ...bar, ...under } } } };
  const below = bar ? 45 : 0, { t, b } = layout.margin;
  own.margin = { ...layout.margin, l: 55, r: 10, b: b + below };
  own.height = layout.height + below;
  if (!last || !names.every((name) => layout[name].domain)) return own;
  const rows = new Set(names.map((name) => `${layout[name.replace("x", "y")].domain}`)).size;
  const high = (layout.height - t - b) / rows, gap = 34, all = names.length * (high + gap);
  own.height = all + t + b + below;
  own.legend = { ...layout.legend, y: 1 + 24 / all };
  own.annotations = layout.annotations.map((one, place) => ({ ...one, x: 0, y: 1 - place * (high + gap) / all }));
  names.forEach((name, place) => {
    const top = 1 - place * (high + gap) / all, y = name.replace("x", "y");
    own[name] = { ...layout[name], domain: [0, 1], showticklabels: place === last, title: place === last ? layout[names[last]].title : { text: "" } };
    own[y] = { ...layout[y], domain: [Math.max(top - high / all, 0), top], showticklabels: true, automargin: true, title: { ...layout.yaxis.title, standoff: 8 } };
  });
  return own;
}

// Show the numbers of squares where there is room for all.
function numbered(div) {
  const texts = div.data.map((trace, place) => ({ ...trace, place })).filter((trace) => trace.name === "numbers" && trace.mode === "text");
  if (!texts.length) return;
  const { xaxis, yaxis } = div._fullLayout, longest = Math.max(...texts.flatMap((one) => one.text.map((text) => text.length)));
  const { z } = div.data.find((trace) => trace.type === "heatmap");
  const room = xaxis._length / z[0].length >= 6.6 * longest + 4 && yaxis._length / z.length >= 15;
  const changed = texts.filter((one) => one.visible !== room).map((one) => one.place);
  if (changed.length) Plotly.restyle(div, { visible: room }, changed);
}

dark.addEventListener("change", () => drawn.forEach(draw));
addEventListener("resize", () => { // a phone that is turned has room for other figures
  clearTimeout(resized);
  resized = setTimeout(() => drawn.forEach(draw), 200);
});

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
  const section = panels.get(`chart ${name}`).node, div = section.querySelector(".plot"), { style } = section.querySelector(".chart");
  style.minWidth = given.wide ? `${given.wide * 4}rem` : ""; // the chart scrolls, not the page
  style.minHeight = `${Math.min(figure.layout.height ?? 320, 320)}px`;
  const fresh = !div.dataset.drawn;
  div.dataset.drawn = "yes";
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
