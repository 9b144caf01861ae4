"use strict";
(function () {
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const places = Array.from(document.querySelectorAll("[data-spec]"));
  const drawn = new Map();
  let turn = 0;

  // One after the other, so that the page can be read and scrolled while the lower charts are still drawn.
  async function draw() {
    const mine = ++turn;
    document.body.dataset.charts = "drawing";
    for (const place of places) {
      if (mine !== turn) return;
      let text = document.getElementById(place.dataset.spec).textContent;
      if (dark.matches) for (const [from, to] of Object.entries(themes.onDark)) text = text.replaceAll(from, to);
      const spec = JSON.parse(text);
      try {
        if (drawn.has(place)) drawn.get(place).finalize();
        drawn.set(place, await vegaEmbed(place, spec, {
          renderer: "svg",
          config: themes[dark.matches ? "dark" : "light"],
          actions: { export: true, source: false, compiled: false, editor: false },
          scaleFactor: { png: 2 },
          downloadFileName: place.dataset.name,
          tooltip: { theme: dark.matches ? "dark" : "light" },
        }));
        const menu = place.querySelector("summary");
        if (menu) menu.setAttribute("aria-label", "save this chart as a picture");
      } catch (error) {
        place.textContent = "This chart cannot be drawn: " + error.message;
        console.error(error);
      }
      await new Promise((resolve) => setTimeout(resolve));
    }
    document.body.dataset.charts = "ready";
  }

  dark.addEventListener("change", draw);
  draw();
})();
