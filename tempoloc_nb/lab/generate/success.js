// The table's numbers at a slider. Each stop is one of its rows: nothing between two of them was measured, so none is shown.
const TEXTS = { shift: "in seconds", share: "in % of the subtask" };
const UNITS = { shift: " s", share: " %" };
for (const figure of document.querySelectorAll(".trial-success:not([data-ready])")) {
  figure.dataset.ready = "yes";
  const all = [...figure.querySelectorAll("tbody tr")];
  const offset_of = (row) => row.cells.item(1).textContent;
  const tasks = [...figure.querySelectorAll("thead th")].slice(2).map((head) => head.textContent);
  const name = "success-" + Math.random().toString(36).slice(2);

  const choice = (key, legend, values) => {
    const radios = values.map((v) => `<label><input type="radio" name="${name}-${key}" value="${v}"> ${TEXTS[v] ?? v}</label>`);
    return `<fieldset><legend>${legend}</legend>${radios.join("")}</fieldset>`;
  };
  const offsets = [...new Set(all.map(offset_of))];
  const kinds = Object.keys(TEXTS).filter((kind) => all.some((row) => row.dataset.kind === kind));
  const line = (task) => `<p class="task"><span class="name">${task}:</span>
    <span class="bar" aria-hidden="true"><i></i><b></b><u></u></span> <span class="number"></span></p>`;
  figure.insertAdjacentHTML("afterbegin", `<div class="choices">
    ${choice("offset", "Offsets that the generator adds", offsets)}${choice("kind", "Error of every boundary", kinds)}
    <label for="${name}">Early or late by</label>
    <input type="range" id="${name}" min="0" step="1"><div class="stops" aria-hidden="true"></div></div>
    <div role="status" aria-live="polite" aria-atomic="true"><p class="which"></p>${tasks.map(line).join("")}</div>
    <p class="key">Bar: trials that succeed. Line: Wilson’s 95 % interval. Dots: with true boundaries. The slider stops
    only where we measured.</p>`);
  figure.querySelector("details").open = false;
  for (const input of figure.querySelectorAll("input")) {
    input.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take its arrow keys
  }

  const slider = figure.querySelector("input[type=range]");
  const lines = [...figure.querySelectorAll(".task")];
  let rows = [];

  const numbers = (row, task) => row?.cells.item(task + 2).textContent.match(/\d[\d.]*/g); // success, low, high, trials
  const show = () => {
    const row = rows[slider.value], truth = rows.find((r) => !r.dataset.kind);
    const error = row.cells.item(0).textContent;
    slider.setAttribute("aria-valuetext", error);
    figure.querySelector(".which").textContent = `Boundaries: ${error}. Offsets: ${offset_of(row)}.`;
    lines.forEach((p, task) => {
      const found = numbers(row, task), reference = numbers(truth, task);
      p.querySelector(".number").textContent = found ? row.cells.item(task + 2).textContent : "not measured";
      const [rate, low, high] = found ?? [0, 0, 0];
      p.querySelector("i").style.width = rate + "%";
      Object.assign(p.querySelector("b").style, { left: low + "%", width: high - low + "%" });
      Object.assign(p.querySelector("u").style, { left: reference?.at(0) + "%", display: reference ? "" : "none" });
    });
  };
  const stop = ({ kind, error }) => error > 0 ? `+${error}${UNITS[kind]}` : kind ? `−${-error}${UNITS[kind]}` : "0";
  const choose = () => {
    const chosen = (key) => figure.querySelector(`input[name="${name}-${key}"]:checked`).value;
    const before = rows[slider.value]?.dataset;
    rows = all.filter((r) => offset_of(r) === chosen("offset") && ["", chosen("kind")].includes(r.dataset.kind));
    rows.sort((a, b) => a.dataset.error - b.dataset.error);
    slider.max = rows.length - 1;
    const same = rows.findIndex((r) => before && r.dataset.kind === before.kind && r.dataset.error === before.error);
    slider.value = Math.max(0, same >= 0 ? same : rows.findIndex((r) => !r.dataset.kind));
    figure.querySelector(".stops").innerHTML = rows.map((r) => `<span>${stop(r.dataset)}</span>`).join("");
    show();
  };
  for (const set of figure.querySelectorAll("fieldset")) {
    set.querySelector("input").checked = true;
    set.addEventListener("change", choose);
  }
  slider.addEventListener("input", show);
  choose();
}
