// What the model wrote, who saved the clip when, and both versions where somebody else did.
import { isGone, numbers } from "./draft.js";
import { el, local, seconds, signed } from "./times.js";

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
        `${d.asked[i]}: ${status}${trial.boundaries[i] == null ? "" : `, ${seconds(trial.boundaries[i])}`}`));
      return el("details", { class: "trial", open: k === 0 },
        el("summary", {}, `Trial ${trial.trial + 1}`, el("span", { class: bad ? "bad" : "ok" }, bad ? `${bad} of ${state.length} not ok` : "ok")),
        el("ul", {}, state), el("pre", { tabindex: 0, "aria-label": `Text of trial ${trial.trial + 1}` }, trial.text));
    }));
  }
}

/** What a save changed of one event. */
function change(c, side) {
  const moved = (c.was || c.edges) && c.old === c.new ? "" : `${seconds(c.old)} → ${c.missing ? "absent" : seconds(c.new)}`;
  const times = c.removed ? `taken out, was at ${seconds(c.old)}` : c.added ? `added at ${seconds(c.new)}` : moved;
  const [old, own] = c.edges ?? [];
  const at = (time) => (time == null ? "at its neighbour" : seconds(time));
  const span = c.edges ? `${times ? "," : ":"} ${side}s ${at(old)} → ${at(own)}` : "";
  return `${c.was ? `${c.was}, now ` : ""}${c.label}${times && `: ${times}`}${span}${c.why ? ` (${c.why})` : ""}`;
}

/** Saves of a clip and remarks on it, the first first. */
const entries = (d) => [...d.history, ...d.remarks].sort((a, b) => Date.parse(a.when) - Date.parse(b.when));

export class History {
  constructor(onRestore) {
    this.onRestore = onRestore;
    this.body = el("ol", { class: "saves" });
    this.root = el("details", { class: "panel", open: true }, el("summary", {}, "Saved"), this.body);
  }

  load(d) {
    const all = entries(d);
    this.root.hidden = !all.length;
    this.body.replaceChildren(...all.reverse().map((save) => el("li", {},
      el("b", {}, save.who), ` ${local(save.when)}`, save.why ? `: ${save.why}` : "",
      el("ul", {}, save.skip !== undefined ? el("li", {}, save.skip ? "skipped" : "not skipped", save.note && `: ${save.note}`) : save.changed.length
        ? save.changed.map((c) => el("li", {}, change(c, d.side)))
        : el("li", {}, "nothing moved")),
      save.changed?.length > 0 && el("button", { type: "button", onclick: () => this.onRestore(save) }, "Put back"))));
  }
}

/** Yours and theirs, side by side, of a clip that somebody else has saved meanwhile: nothing is kept unseen. */
export class Versions {
  constructor() {
    const button = (text, act) => el("button", { type: "button", onclick: () => { this.root.close(); act?.(); } }, text);
    this.head = el("h2", { id: "versions" });
    this.body = el("tbody");
    this.root = el("dialog", { class: "help", "aria-labelledby": "versions" }, this.head,
      el("table", {}, el("thead", {}, el("tr", {}, ["Event", "Yours", "Theirs", "Apart"].map((t) => el("th", { scope: "col" }, t)))), this.body),
      el("p", {}, "The version that you do not keep stays in the file's history, or in undo."),
      el("div", { class: "choice" }, button("Not yet"), button("Keep mine, save", () => this.mine()),
        button("Take theirs", () => this.theirs())));
  }

  /** Ask which to keep: the `draft`, or the clip as it is `now`. */
  open(now, draft, mine, theirs) {
    Object.assign(this, { mine, theirs });
    const last = entries(now).at(-1);
    this.head.textContent = last ? `${last.who} saved this clip on ${local(last.when)}` : "This clip has changed meanwhile";
    const own = (edge) => (edge == null ? "" : `, ${now.side}s at ${seconds(edge, 3)}`);
    const told = (time, absent, edge) => (absent ? "absent" : time == null ? "not set" : seconds(time, 3) + own(edge));
    const row = (name, yours, their, apart = "") => el("tr", { class: yours === their ? "" : "differs" },
      el("th", { scope: "row" }, name), [yours, their, yours === their ? "the same" : apart].map((t) => el("td", {}, t)));
    const ids = numbers(now);
    const rows = draft.events.map((e) => {
      const i = ids.indexOf(e.id);
      if (i < 0) return row(e.label, told(e.boundary, e.absent, e.edge), "no such event");
      const other = now.boundaries[i];
      const name = e.label === now.labels[i] ? e.label : `${e.label} (theirs: ${now.labels[i]})`;
      const apart = e.absent || e.boundary == null || other == null ? "" : signed(e.boundary - other);
      return row(name, told(e.boundary, e.absent, e.edge), told(other, isGone(now, i), now.edges[i]), apart);
    });
    now.labels.forEach((label, i) => {
      if (!draft.events.some((e) => e.id === ids[i])) rows.push(row(label, "no such event", told(now.boundaries[i], isGone(now, i), now.edges[i])));
    });
    const { note, skip } = now.remark;
    const remarks = [row("Note", draft.note || "–", note || "–"), row("Skip the clip", draft.skip ? "yes" : "no", skip ? "yes" : "no")];
    this.body.replaceChildren(...rows, ...remarks);
    this.root.showModal();
  }
}
