// What the model wrote, and who saved the clip when.
import { el, seconds } from "./times.js";

export class Answers {
  constructor() {
    this.body = el("div", {});
    this.head = el("summary", {}, "Answers");
    this.root = el("details", { class: "panel answers", open: true }, this.head, this.body);
  }

  load(d) {
    this.root.hidden = !d.trials.length;
    this.head.textContent = d.model ? `Answers of ${d.model.name} at ${d.model.fps} fps` : "Answers";
    this.body.replaceChildren(...d.trials.map((trial, k) => {
      const bad = trial.statuses.filter((s) => s !== "ok").length;
      const state = trial.statuses.map((status, i) => el("li", { class: status === "ok" ? "ok" : "bad" },
        `${d.labels[i]}: ${status}${trial.boundaries[i] == null ? "" : `, ${seconds(trial.boundaries[i])}`}`));
      return el("details", { class: "trial", open: k === 0 },
        el("summary", {}, `Trial ${trial.trial + 1}`, el("span", { class: bad ? "bad" : "ok" }, bad ? `${bad} of ${state.length} not ok` : "ok")),
        el("ul", {}, state), el("pre", {}, trial.text));
    }));
  }
}

export class History {
  constructor(onRestore) {
    this.onRestore = onRestore;
    this.body = el("ol", { class: "saves" });
    this.root = el("details", { class: "panel", open: true }, el("summary", {}, "Saved"), this.body);
  }

  load(d) {
    this.root.hidden = !d.history.length;
    this.body.replaceChildren(...[...d.history].reverse().map((save) => el("li", {},
      el("b", {}, save.who), ` ${new Date(save.when).toLocaleString()}`, save.why ? `: ${save.why}` : "",
      el("ul", {}, save.changed.length
        ? save.changed.map((c) => el("li", {}, `${c.label}: ${seconds(c.old)} → ${c.missing ? "absent" : seconds(c.new)}${c.why ? ` (${c.why})` : ""}`))
        : el("li", {}, "nothing moved")),
      save.changed.length > 0 && el("button", { type: "button", onclick: () => this.onRestore(save) }, "Put back"))));
  }
}
