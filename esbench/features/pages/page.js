"use strict";
// Charts are drawn on canvases, which know no style sheet: their colours are set from the variables of style.css.
const PAINTED = {
  axis_label_text_color: "--muted", major_label_text_color: "--muted", label_text_color: "--text",
  axis_line_color: "--line", major_tick_line_color: "--line",
  grid_line_color: "--grid",
};
const systemTheme = matchMedia("(prefers-color-scheme: dark)");
const toggle = document.getElementById("theme");
let chosen = null;
let documents = Number(document.body.dataset.documents); // of Bokeh, that are drawn or being drawn

function paint() {
  const theme = chosen ?? (systemTheme.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  toggle.textContent = theme === "dark" ? "Light theme" : "Dark theme";
  const style = getComputedStyle(document.documentElement);
  const colour = variable => style.getPropertyValue(variable).trim();
  for (const charts of Bokeh.documents) {
    for (const model of charts.all_models ?? charts._all_models.values()) {
      const values = {};
      for (const [name, variable] of Object.entries(PAINTED)) {
        if (name in model.properties) values[name] = colour(variable);
      }
      if (model.type === "Span") values.line_color = colour("--muted");
      if (model.type === "Label") Object.assign(values, {
        text_color: colour("--muted"), background_fill_color: colour("--surface"),
      });
      if (model.type === "Toolbar" && matchMedia("(pointer: coarse)").matches) values.active_drag = null; // scrolls
      model.setv(values);
    }
  }
}

function paintWhenDrawn() {
  paint();
  if (Bokeh.documents.length < documents) setTimeout(paintWhenDrawn, 10);
}

// Charts of what is folded are kept compressed (zlib, base64), and drawn when it is unfolded for the first time.
async function draw(details) {
  const packed = details.querySelector(":scope > script.packed");
  if (!packed) return;
  if (!("DecompressionStream" in window)) return packed.replaceWith("This browser, from before 2023, cannot unpack the charts.");
  packed.remove();
  const bytes = Uint8Array.from(atob(packed.textContent), letter => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  documents += 1;
  document.body.append(script);
  paintWhenDrawn();
}

function unfold(address) {
  const target = address && document.getElementById(address.slice(1));
  for (let around = target; around; around = around.parentElement) if (around.tagName === "DETAILS") around.open = true;
}

toggle.addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  paint();
});
systemTheme.addEventListener("change", paint);
document.addEventListener("toggle", event => event.target.open && draw(event.target), true); // it does not bubble
document.addEventListener("click", event => unfold(event.target.closest?.("a[href^='#']")?.hash));
unfold(location.hash);
paintWhenDrawn();
