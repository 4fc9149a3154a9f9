// Where it begins: in a page, or in a notebook.
import { App } from "./app.js";
import { http, kernel, still } from "./backends.js";
/* global STYLE */

/** Light or dark, as the notebook, the site or the system says. */
function theme() {
  const { body } = document;
  const jupyter = body.dataset.jpThemeLight;
  if (jupyter) return jupyter === "true" ? "light" : "dark";
  const material = body.dataset.mdColorScheme;
  if (material) return material === "slate" ? "dark" : "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Put the reviewer into `host`. `place` is page (it fills the window) or cell (of a notebook). */
async function mount(host, backend, place = "page") {
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];
  const box = document.createElement("div");
  box.className = `tempoloc ${place}`;
  root.append(box);
  const dress = () => { box.dataset.theme = theme(); };
  dress();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
  new MutationObserver(dress).observe(document.body, { attributes: true });
  return new App(box, backend, place).start();
}

function render({ model, el }) {
  const host = document.createElement("div");
  host.dataset.lmSuppressShortcuts = "true"; // or X would cut the notebook's cell
  el.append(host);
  mount(host, kernel(model), "cell");
}

export { http, mount, still };
export default { render };
