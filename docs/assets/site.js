// What scrolls sideways is reached by the keyboard, and regions that the theme leaves nameless are named.
const scrolls = (region) =>
  region.scrollWidth > region.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(region).overflowX);
const reachable = () => {
  for (const region of document.querySelectorAll("article *")) {
    if (scrolls(region) && region.tabIndex < 0) Object.assign(region, { tabIndex: 0 }).dataset.scrolls = "";
    else if ("scrolls" in region.dataset && !scrolls(region)) {
      region.removeAttribute("tabindex");
      delete region.dataset.scrolls;
    }
  }
};
addEventListener("load", () => {
  reachable();
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  const drawer = document.querySelector(".md-header__button[for='__drawer']");
  Object.assign(drawer, { tabIndex: 0, title: "Navigation" });
  document.querySelectorAll(".md-code__nav").forEach((tools, place) => { tools.ariaLabel = `Code block ${place + 1}`; });
});
addEventListener("resize", reachable);
addEventListener("toggle", reachable, true);  // a folded block that opens

// Formulas are set by KaTeX; the table of results is filtered by study and verdict.
document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll(".arithmatex")) {
    renderMathInElement(formula, {
      delimiters: [{ left: "\\(", right: "\\)", display: false }, { left: "\\[", right: "\\]", display: true }],
    });
  }
  const table = document.getElementById("claims-table");
  if (!table) return;
  const address = new URLSearchParams(location.search);
  const choices = ["study", "verdict"].map((name) => [name, document.getElementById(`filter-${name}`)]);
  const filter = () => {
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = choices.some(([name, choice]) => choice.value && row.dataset[name] !== choice.value);
      shown += !row.hidden;
    }
    document.getElementById("filter-count").textContent = `${shown} of ${table.tBodies[0].rows.length} claims`;
    for (const [name, choice] of choices) choice.value ? address.set(name, choice.value) : address.delete(name);
    history.replaceState(null, "", address.size ? `?${address}` : location.pathname);
  };
  for (const [name, choice] of choices) {
    choice.value = address.get(name) ?? "";
    choice.addEventListener("change", filter);
  }
  filter();
});

// The table of effect sizes is sorted by the column whose heading is clicked; a second click reverses the order.
document.addEventListener("DOMContentLoaded", () => {
  const body = document.querySelector("#effects-table tbody");
  document.querySelectorAll("#effects-table th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const up = head.ariaSort !== "ascending";
      for (const other of head.parentElement.children) other.ariaSort = null;
      head.ariaSort = up ? "ascending" : "descending";
      const value = (row) => row.cells[column].dataset.value;
      const order = (a, b) => Number(value(a)) - Number(value(b)) || value(a).localeCompare(value(b));
      body.append(...[...body.rows].sort((a, b) => (up ? order(a, b) : order(b, a))));
    });
  });
});
