// What is wrong with the page that is open, as a list of sentences.
() => {
  const found = [];
  const room = document.documentElement.clientWidth;
  const outline = (one) => one.outerHTML.slice(0, 100).replaceAll(/\s+/g, " ");
  const scrolls = (one) => one && (getComputedStyle(one).overflowX !== "visible" || scrolls(one.parentElement));

  // Width.
  if (document.documentElement.scrollWidth > room) {
    const all = [...document.querySelectorAll("body *")];
    const outside = all.find((one) => one.getBoundingClientRect().right > room + 1 && !scrolls(one.parentElement));
    found.push(`wider than its window: ${outline(outside ?? document.body)}`);
  }

  // Contrast of text, by WCAG 2: at least 4.5, or 3 where it is large.
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3]));
  const ground = (one) => {
    if (!one) return [255, 255, 255];
    const style = getComputedStyle(one);
    if (style.backgroundImage !== "none") return null;
    const colour = rgba(style.backgroundColor);
    if (colour[3] === 1) return colour;
    const below = ground(one.parentElement);
    return below && over(colour, below);
  };
  const light = (colour) => {
    const parts = colour.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const opacity = (one) => (one ? Number(getComputedStyle(one).opacity) * opacity(one.parentElement) : 1);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const read = new Set();
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (read.has(one) || !texts.currentNode.data.trim() || !one.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    read.add(one);
    if (one.closest("svg, script, style, :disabled, [aria-hidden=true], .katex-mathml") || !one.getBoundingClientRect().width) continue;
    const below = ground(one);
    if (!below) continue;
    const style = getComputedStyle(one);
    const [r, g, b, a] = rgba(style.color);
    const [high, low] = [light(over([r, g, b, a * opacity(one)], below)), light(below)].sort((x, y) => y - x);
    const size = Number.parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < least - 0.01) found.push(`contrast ${contrast.toFixed(2)}: ${outline(one)}`);
  }

  // Keyboard: what scrolls sideways can be reached, and what can be reached has a name.
  const reached = "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])";
  for (const one of document.querySelectorAll("body *")) {
    const style = getComputedStyle(one);
    if (!["auto", "scroll"].includes(style.overflowX) || one.scrollWidth <= one.clientWidth + 1 || !one.checkVisibility()) continue;
    if (!one.matches(reached) && !one.querySelector(reached)) found.push(`scrolls, but not by keyboard: ${outline(one)}`);
  }
  for (const one of document.querySelectorAll("a[href], button, input, select, textarea")) {
    const named = one.textContent.trim() || one.ariaLabel || one.title || one.labels?.length || one.querySelector("img[alt]:not([alt=''])");
    if (!named && one.type !== "hidden" && one.checkVisibility({ visibilityProperty: true })) found.push(`without a name: ${outline(one)}`);
  }
  return found;
}
