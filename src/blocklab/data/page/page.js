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
    const theme = dark.matches ? "dark" : "light";
    document.body.dataset.charts = "drawing";
    for (const place of places) {
      if (mine !== turn) return;
      let text = document.getElementById(place.dataset.spec).textContent;
      if (theme === "dark") for (const [from, to] of Object.entries(themes.onDark)) text = text.replaceAll(from, to);
      const spec = JSON.parse(text);
      try {
        if (drawn.has(place)) drawn.get(place).finalize();
        drawn.set(place, await vegaEmbed(place, spec, {
          renderer: "svg",
          config: themes[theme],
          actions: { export: true, source: false, compiled: false, editor: false },
          scaleFactor: { png: 2 },
          downloadFileName: place.dataset.name,
          tooltip: { theme },
        }));
        place.classList.toggle("on-dark", theme === "dark");
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

  // What is drawn for dark paper, with the colours that it has on light paper. A palette has colours of its own for
  // text, which share their dark twins with those of marks.
  function lightOf(text) {
    const found = new Map();
    const add = (from, to) => { if (text || !found.has(from)) found.set(from, to); };
    for (const [from, to] of Object.entries(themes.onDark)) add(to, from);
    (function walk(dark, light) {
      for (const [key, value] of Object.entries(dark)) {
        if (value && typeof value === "object") walk(value, light[key]);
        else if (value !== light[key]) found.set(value, light[key]);
      }
    })(themes.dark, themes.light);
    return found;
  }

  // Paper is light whatever the screen is, and there is no time to draw anew: a copy is recoloured, which the style
  // sheet shows in print only.
  function copyForPaper() {
    forgetPaper();
    const marks = lightOf(false), texts = lightOf(true);
    for (const drawing of document.querySelectorAll(".plot.on-dark svg.marks")) {
      const copy = drawing.cloneNode(true);
      copy.classList.add("paper");
      copy.style.backgroundColor = themes.light.background;
      for (const each of copy.querySelectorAll("[fill], [stroke]")) for (const name of ["fill", "stroke"]) {
        const to = (each.tagName === "text" ? texts : marks).get(each.getAttribute(name));
        if (to) each.setAttribute(name, to);
      }
      drawing.after(copy);
    }
  }

  function forgetPaper() {
    for (const each of document.querySelectorAll("svg.paper")) each.remove();
  }

  function cell(row, kind, text) {
    const made = row.appendChild(document.createElement(kind));
    made.textContent = text;
  }

  function tableOf(figure) {
    const panels = Array.from(figure.querySelectorAll("[data-spec]"), (place) =>
      JSON.parse(document.getElementById(place.dataset.spec).textContent)).filter((spec) => spec.usermeta && spec.datasets[spec.usermeta.rows]);
    if (!panels.length) return null;
    const several = panels.length > 1;
    const names = new Map();
    for (const spec of panels) for (const [field, title] of spec.usermeta.columns) {
      if (spec.datasets[spec.usermeta.rows].some((row) => row[field] !== undefined)) names.set(field, title);
    }
    const table = document.createElement("table");
    table.className = "plain narrow";
    const head = table.createTHead().insertRow();
    if (several) cell(head, "th", "panel");
    for (const title of names.values()) cell(head, "th", title);
    const body = table.createTBody();
    panels.forEach((spec, at) => {
      const title = spec.title ? (spec.title.text || spec.title) : String(at + 1);
      let last = "";
      for (const row of spec.datasets[spec.usermeta.rows]) {
        const texts = Array.from(names.keys(), (field) => row[field] === undefined || row[field] === null ? "" : String(row[field]));
        const joined = JSON.stringify(texts);
        // A level line is drawn from two rows that say the same.
        if (joined === last) continue;
        last = joined;
        const line = body.insertRow();
        if (several) cell(line, "td", title);
        for (const text of texts) cell(line, "td", text);
      }
    });
    return table;
  }

  // What the table shows is what the file has: it is read off the table.
  function csvOf(table) {
    const quoted = (text) => /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    return Array.from(table.rows, (row) => Array.from(row.cells, (each) => quoted(each.textContent)).join(",") + "\n").join("");
  }

  function button(table, name) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "csv";
    made.textContent = "Download CSV";
    made.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csvOf(table)], { type: "text/csv" }));
      link.download = name + ".csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
    return made;
  }

  function scrolls(place) {
    // Without a pointer only what has the focus can be scrolled.
    if (place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight) place.tabIndex = 0;
    else place.removeAttribute("tabindex");
  }

  function scrollsAll(within) {
    for (const place of within.querySelectorAll(".scroll")) scrolls(place);
  }

  for (const place of document.querySelectorAll("details.data")) {
    place.addEventListener("toggle", () => {
      if (!place.open || place.querySelector("table")) return;
      const table = tableOf(place.closest("figure"));
      if (!table) return;
      place.appendChild(button(table, place.dataset.name));
      const box = place.appendChild(document.createElement("div"));
      box.className = "scroll tall";
      box.appendChild(table);
    });
  }
  for (const table of document.querySelectorAll("table[data-csv]")) {
    table.parentElement.before(button(table, table.dataset.csv));
  }
  scrollsAll(document);
  // What is folded has no size yet.
  for (const place of document.querySelectorAll("details")) place.addEventListener("toggle", () => scrollsAll(place));
  window.addEventListener("resize", () => scrollsAll(document));

  dark.addEventListener("change", draw);
  window.addEventListener("beforeprint", copyForPaper);
  window.addEventListener("afterprint", forgetPaper);
  draw();
})();
