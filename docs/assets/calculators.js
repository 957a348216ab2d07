// The field on the pages of theory hides the calculators that do not have all of its words.
document.addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("calculator-search");
  if (!field) return;
  const groups = [...document.querySelectorAll("details.calculators")];
  const items = [...document.querySelectorAll(groups.length ? "details.calculators tr" : ".doc-function")];
  const texts = items.map((item) => item.textContent.toLowerCase());
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    items.forEach((item, place) => {
      item.hidden = !words.every((word) => texts[place].includes(word));
      count += !item.hidden;
    });
    for (const group of groups) {
      const some = group.querySelector("tr:not([hidden])");
      group.hidden = !some;
      group.open = words.length > 0 && some !== null;
    }
    document.getElementById("calculator-count").textContent = words.length ? `${count} of ${items.length}` : "";
  };
  field.addEventListener("input", filter);
});
