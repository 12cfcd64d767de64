"use strict";
// Charts are drawn on canvases, which know no style sheet: their colours are set from the variables of style.css.
const PAINTED = {
  axis_label_text_color: "--muted", major_label_text_color: "--muted", label_text_color: "--text",
  axis_line_color: "--line", major_tick_line_color: "--line",
  grid_line_color: "--grid", background_fill_color: "--surface",
  border_fill_color: "--surface",
};
const systemTheme = matchMedia("(prefers-color-scheme: dark)");
const toggle = document.getElementById("theme");
let chosen = null;

function paint() {
  const theme = chosen ?? (systemTheme.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  toggle.textContent = theme === "dark" ? "Light" : "Dark";
  const style = getComputedStyle(document.documentElement);
  for (const charts of Bokeh.documents) {
    for (const model of charts.all_models ?? charts._all_models.values()) {
      const values = {};
      for (const [name, variable] of Object.entries(PAINTED)) {
        if (name in model.properties) values[name] = style.getPropertyValue(variable).trim();
      }
      if (model.type === "Span" || model.type === "Label") values[model.type === "Span" ? "line_color" : "text_color"] =
        style.getPropertyValue("--muted").trim();
      if (model.type === "Toolbar" && matchMedia("(pointer: coarse)").matches) values.active_drag = null; // scrolls
      model.setv(values);
    }
  }
}

function paintWhenDrawn() {
  paint();
  if (document.querySelector(".chart") && Bokeh.documents.length === 0) setTimeout(paintWhenDrawn, 10);
}

toggle.addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  paint();
});
systemTheme.addEventListener("change", paint);
paintWhenDrawn();
