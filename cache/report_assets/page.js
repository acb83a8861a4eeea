// Draws the report's plots in the page's colours, light or dark, wide or narrow. The tables are
// there without it.
"use strict";
(() => {
  const NARROW_PX = 560;
  const COLOR_KEYS = /(color|colors)$/;
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const probe = root.appendChild(document.createElement("i"));
  let chosen = null;

  // Only under keys of colours: a name from a client may begin with "--" too.
  function colored(value, key) {
    if (Array.isArray(value)) return value.map((item) => colored(item, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, colored(v, k)]));
    }
    const isName = typeof value === "string" && value.startsWith("--") && COLOR_KEYS.test(key);
    return isName ? resolved(value) : value;
  }

  // A variable holds both of its colours; what it comes to is told by an element that wears it.
  function resolved(name) {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  }

  function narrowed(figure) {
    for (const [path, value] of Object.entries(figure.layout.meta?.narrow ?? {})) {
      const keys = path.split(".");
      const last = keys.pop();
      keys.reduce((part, key) => part[key], figure)[last] = value;
    }
    return figure;
  }

  function draw() {
    for (const element of document.querySelectorAll(".plot")) {
      let figure = colored(figures[element.dataset.figure], "");
      if (element.clientWidth < NARROW_PX) figure = narrowed(figure);
      figure.layout.width = element.clientWidth;
      Plotly.react(element, figure.data, figure.layout, { displayModeBar: false });
    }
  }

  function theme() {
    const isDark = chosen === null ? dark.matches : chosen;
    root.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light" : "Dark";
    draw();
  }

  let redraw = 0;
  window.addEventListener("resize", () => {
    clearTimeout(redraw);
    redraw = setTimeout(draw, 100);
  });
  dark.addEventListener("change", theme);
  button.addEventListener("click", () => {
    chosen = root.dataset.theme !== "dark";
    theme();
  });
  button.hidden = false;
  theme();
})();
