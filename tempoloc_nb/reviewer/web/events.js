// The events of a clip as a list: when, why, and how far off the model is.
import { colour } from "./timeline.js";
import { button, el, failure, percent, seconds, signed, typed } from "./times.js";

export class Events {
  constructor(actions) {
    // select(i), type(i, time, part), edge(i), join(), here(i), snap(i), toggle(i), take(i), reason(i, text), name(i, label), split(i), drop(i), add()
    this.actions = actions;
    this.list = el("ol", { class: "events" });
    this.log = el("p", { class: "log" });
    this.error = el("p", { class: "error", "aria-live": "polite" });
    this.names = el("datalist", { id: "names" });
    this.adds = button("Add", "Add an event at the frame that is shown (A)", () => actions.add());
    this.root = el("section", { class: "panel" }, el("div", { class: "title" }, el("h2", {}, "Events"), this.adds),
      this.list, this.log, this.error, this.names);
  }

  /** Suggest these names for events. */
  suggest(labels) {
    this.names.replaceChildren(...labels.map((value) => el("option", { value })));
  }

  load(details, draft) {
    this.details = details;
    this.draft = draft;
    this.shown = this.selected = null;
    const { failed = [], gaps = [] } = details.model ?? {};
    this.log.textContent = [
      failed.length && `The log has attempts that failed: ${failed.map(failure).join("; ")}.`,
      gaps.length && `It says nothing for certain from ${gaps.map(([a, b]) => `${seconds(a)} to ${seconds(b)}`).join(", ")}.`,
    ].filter(Boolean).join(" ");
    this.draw(0);
  }

  /** A row for each event; anew where there are others, or they have other names. */
  _rows() {
    const shown = JSON.stringify(this.draft.events.map((e) => [e.id, e.label]));
    if (shown === this.shown) return;
    this.shown = shown;
    this.rows = this.draft.events.map((e, i) => this._row(e, i));
    this.list.replaceChildren(...this.rows.map((r) => r.root));
  }

  _row(event, i) {
    const label = event.label || "new event";
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
    const { side } = this.details;
    const own = el("input", { class: "own", inputmode: "decimal", "aria-label": `Own ${side} of ${label} in seconds`, placeholder: side,
      title: `Where its span ${side}s, if that is not at its neighbour (E)`, onfocus: () => this.actions.select(i, false, this.draft.events[i].edge != null), onchange: () => this._typed(i, true) });
    const reason = el("input", { class: "reason", placeholder: "why?", "aria-label": `Reason: ${label}`, oninput: () => this.actions.reason(i, reason.value) });
    const chip = el("span", { class: "chip" }, String(i + 1));
    chip.style.background = colour(event, this.details);
    const what = el("span", { class: "what", title: "Rename (R)", ondblclick: () => this.rename(i) }, label);
    const facts = el("p", { class: "facts" });
    const gone = tool("absent", "It is not in the video (X)", "toggle");
    const median = this.draft.said(event) && tool("median", "Take the model's median", "take");
    const edge = this.details.gripper?.edges.length > 0 && tool("gripper", "At the gripper's nearest edge (G)", "snap");
    const root = el("li", { class: "event", onclick: () => this.actions.select(i) },
      el("div", { class: "head" }, chip, what, time),
      facts,
      el("div", { class: "tools" }, tool("here", "At the frame that is shown (S)", "here"), median, edge, gone,
        tool("rename", "Give it another name (R)", "rename"), tool("split", "Split its subtask in two (C)", "split"),
        tool("delete", "Take it out of the list (Delete)", "drop"), tool(side, `Its span ${side}s on its own, or go there (E)`, "edge"), own, reason));
    return { root, what, time, own, reason, facts, gone, median };
  }

  /** Ask for the name of event `i`. */
  rename(i) {
    const { what } = this.rows[i];
    const { label } = this.draft.events[i];
    const field = el("input", { class: "what", list: "names", value: label, placeholder: "name of the event", "aria-label": "Name of the event" });
    let given = false;
    const end = (name) => {
      if (given) return;
      given = true;
      field.replaceWith(what);
      if (name !== label) this.actions.name(i, name);
    };
    field.addEventListener("click", (e) => e.stopPropagation());
    field.addEventListener("keydown", (e) => { if (e.key === "Escape") field.value = label; });
    field.addEventListener("blur", () => end(field.value.trim().replace(/\s+/g, " ")));
    what.replaceWith(field);
    field.focus();
    field.select();
  }

  _typed(i, part = false) {
    const input = this.rows[i][part ? "own" : "time"];
    const time = typed(input.value, this.details.times);
    if (part && !input.value.trim()) this.actions.join();
    else if (Number.isFinite(time)) this.actions.type(i, time, part);
    else this.draw(this.selected);
  }

  /** The numbers as they are now. */
  draw(selected) {
    const other = selected !== this.selected;
    this.selected = selected;
    this._rows();
    const faults = this.draft.faults();
    const d = this.details;
    this.rows.forEach((row, i) => {
      const e = this.draft.events[i];
      const said = this.draft.said(e);
      const before = this.draft.saved(e);
      const facts = before ? [] : ["new"];
      const start = d.truth?.[e.id] ?? before?.boundary;
      if (e.absent) facts.push("not in the video");
      else if (e.boundary != null) {
        if (start != null && Math.abs(e.boundary - start) > 1e-6) facts.push(`${signed(e.boundary - start)} from ${d.truth?.[e.id] != null ? "the truth" : "the proposal"}`);
        if (said?.boundary != null) facts.push(`model ${signed(said.boundary - e.boundary)}`);
      }
      if (said) facts.push(said.absent ? "the model says: not in the video" : said.boundary == null ? "the model lacks it" : said.confidence == null ? d.model.name : `${d.model.sure} ${percent(said.confidence)} %`);
      if (e.edge != null && !e.absent) facts.push(`${d.side}s at ${seconds(e.edge)}`);
      if (said?.outcome) facts.push(said.outcome);
      if (before && before.label !== e.label) facts.push(`was ${before.label}`);
      row.facts.textContent = faults[i] || facts.join(" · ");
      row.facts.classList.toggle("wrong", Boolean(faults[i]));
      row.root.classList.toggle("selected", i === selected);
      row.root.classList.toggle("gone", e.absent);
      row.gone.setAttribute("aria-pressed", e.absent ? "true" : "false");
      if (row.median) row.median.disabled = said?.boundary == null;
      row.own.hidden = e.absent || e.boundary == null;
      if (row.own.getRootNode().activeElement !== row.own) row.own.value = e.edge?.toFixed(3) ?? "";
      if (row.time.getRootNode().activeElement !== row.time) row.time.value = e.absent ? "absent" : e.boundary == null ? "" : e.boundary.toFixed(3);
      if (row.reason.value !== e.why) row.reason.value = e.why;
    });
    this._errors();
    if (other && this.rows[selected]) this._show(this.rows[selected].root);
  }

  /** Scroll as far as is needed to see a row, where the list scrolls by itself; not away from the mouse that chose it. */
  _show(row) {
    const box = this.root.parentElement;
    const [{ top, bottom }, seen] = [row.getBoundingClientRect(), box.getBoundingClientRect()];
    if (!row.matches(":hover")) box.scrollTop += Math.min(0, top - 8 - seen.top) + Math.max(0, bottom + 8 - seen.bottom);
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
