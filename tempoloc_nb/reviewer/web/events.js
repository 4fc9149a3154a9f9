// The events of a clip as a list: when, why, and how far off the model is.
import { COLOURS } from "./timeline.js";
import { button, el, seconds, signed, typed } from "./times.js";

export class Events {
  constructor(actions) {
    this.actions = actions; // select(i), type(i, time), here(i), snap(i), toggle(i), take(i), reason(i, text)
    this.list = el("ol", { class: "events" });
    this.error = el("p", { class: "error", "aria-live": "polite" });
    this.root = el("section", { class: "panel" }, el("h2", {}, "Events"), this.list, this.error);
  }

  load(details, draft) {
    this.details = details;
    this.draft = draft;
    this.rows = details.labels.map((label, i) => this._row(label, i));
    this.list.replaceChildren(...this.rows.map((r) => r.root));
    this.draw(0);
  }

  _row(label, i) {
    const act = (name) => (event) => {
      event.stopPropagation();
      this.actions.select(i, false);
      this.actions[name](i);
    };
    const tool = (text, title, name) => button(text, title, act(name), { "aria-label": `${text}: ${title}: ${label}` });
    const time = el("input", {
      class: "time", inputmode: "decimal", "aria-label": `Boundary of ${label} in seconds`, title: "seconds, m:ss.s, or f120 for a frame",
      onfocus: () => this.actions.select(i, false), onchange: () => this._typed(i),
    });
    const reason = el("input", { class: "reason", placeholder: "why?", "aria-label": `Reason: ${label}`, oninput: () => this.actions.reason(i, reason.value) });
    const chip = el("span", { class: "chip" }, String(i + 1));
    chip.style.background = COLOURS[i % COLOURS.length];
    const facts = el("p", { class: "facts" });
    const gone = tool("absent", "It is not in the video (X)", "toggle");
    const median = this.details.model && tool("median", "Take the model's median", "take");
    const edge = this.details.gripper?.edges.length > 0 && tool("gripper", "At the gripper's nearest edge (G)", "snap");
    const root = el("li", { class: "event", onclick: () => this.actions.select(i) },
      el("div", { class: "head" }, chip, el("span", { class: "what" }, label), time),
      facts,
      el("div", { class: "tools" }, tool("here", "At the frame that is shown (S)", "here"), median, edge, gone, reason));
    return { root, time, reason, facts, gone, median };
  }

  _typed(i) {
    const input = this.rows[i].time;
    const time = typed(input.value, this.details.times);
    if (Number.isFinite(time)) this.actions.type(i, time);
    else this.draw(this.selected);
  }

  /** The numbers as they are now. */
  draw(selected) {
    this.selected = selected;
    const faults = this.draft.faults();
    const d = this.details;
    this.rows.forEach((row, i) => {
      const e = this.draft.events[i];
      const said = d.model?.events[i];
      const facts = [];
      const start = d.truth?.[i] ?? d.boundaries[i];
      if (e.absent) facts.push("not in the video");
      else if (e.boundary != null) {
        if (start != null && Math.abs(e.boundary - start) > 1e-6) facts.push(`${signed(e.boundary - start)} from ${d.truth ? "the truth" : "the proposal"}`);
        if (said?.boundary != null) facts.push(`model ${signed(said.boundary - e.boundary)}`);
      }
      if (said) facts.push(said.absent ? "the model says: not in the video" : said.boundary == null ? "the model lacks it" : `confidence ${Math.round(100 * said.confidence)} %`);
      row.facts.textContent = faults[i] || facts.join(" · ");
      row.facts.classList.toggle("wrong", Boolean(faults[i]));
      row.root.classList.toggle("selected", i === selected);
      row.root.classList.toggle("gone", e.absent);
      row.gone.setAttribute("aria-pressed", e.absent ? "true" : "false");
      if (row.median) row.median.disabled = said?.boundary == null;
      if (row.time.getRootNode().activeElement !== row.time) row.time.value = e.absent ? "absent" : e.boundary == null ? "" : e.boundary.toFixed(3);
      if (row.reason.value !== e.why) row.reason.value = e.why;
    });
    this._errors();
  }

  _errors() {
    const d = this.details;
    const lines = [];
    const say = (name, times) => {
      const off = times && this.draft.errorOf(times);
      if (off) lines.push(`${name} ${seconds(off.seconds)}${Number.isFinite(off.percent) ? ` (${off.percent.toFixed(1)} %)` : ""}`);
    };
    if (d.model) say("model", d.model.events.map((e) => e.boundary));
    say("no video", d.no_video);
    this.error.textContent = lines.length ? `Mean error against these boundaries: ${lines.join(", ")}` : "";
  }
}
