// What a person has changed of a clip and not saved yet, with undo.
import { snapped } from "./times.js";

export class Draft {
  constructor(details) {
    this.past = [];
    this.future = [];
    this.take(details);
  }

  /** Start from what is saved; what was done before can still be undone. */
  take(details) {
    this.details = details;
    this.revision = details.revision;
    const saved = details.saves > 0;
    this.events = details.labels.map((label, i) => ({
      label, boundary: details.boundaries[i], absent: details.absent[i] || (saved && details.boundaries[i] == null), why: "",
    }));
    this.first = JSON.stringify(this.events);
  }

  /** Put back what a save changed. */
  restore(save) {
    this.mark();
    for (const { label, old } of save.changed) {
      const event = this.events.find((e) => e.label === label);
      if (event) Object.assign(event, { boundary: old ?? null, absent: false });
    }
  }

  get dirty() {
    return JSON.stringify(this.events) !== this.first;
  }

  /** Keep what is there for undo; call once before a change, or a drag. */
  mark() {
    this.past.push(JSON.stringify(this.events));
    this.future = [];
  }

  change(i, values) {
    this.mark();
    Object.assign(this.events[i], values);
  }

  /** Put boundary `i` at the frame nearest to `time`. */
  move(i, time, mark = true) {
    if (mark) this.mark();
    Object.assign(this.events[i], { boundary: snapped(this.details.times, time), absent: false });
  }

  _swap(from, to) {
    if (!from.length) return false;
    to.push(JSON.stringify(this.events));
    this.events = JSON.parse(from.pop());
    return true;
  }

  undo() {
    return this._swap(this.past, this.future);
  }

  redo() {
    return this._swap(this.future, this.past);
  }

  /** What is wrong with each event, "" where nothing is. */
  faults() {
    let before = 0;
    let last = "the start";
    return this.events.map((e) => {
      if (e.absent) return "";
      if (e.boundary == null) return "not set: mark it, or say that it is absent";
      const wrong = this.details.in_order && e.boundary <= before ? `must come after ${last}` : "";
      const end = this.details.duration;
      if (end && e.boundary > end + 1e-6) return "after the end of the video";
      before = Math.max(before, e.boundary);
      last = e.label;
      return wrong;
    });
  }

  /** How far `times` are off if the draft is right: mean absolute error (s), and relative to the subtasks (%). */
  errorOf(times) {
    const parts = [];
    let before = 0;
    this.events.forEach((e, i) => {
      if (e.absent || e.boundary == null) return;
      if (times[i] != null) {
        const off = Math.abs(times[i] - e.boundary);
        parts.push([off, e.boundary > before ? (100 * off) / (e.boundary - before) : NaN]);
      }
      before = e.boundary;
    });
    if (!parts.length) return null;
    const mean = (k) => parts.reduce((sum, p) => sum + p[k], 0) / parts.length;
    return { seconds: mean(0), percent: mean(1) };
  }

  /** What the program on the other side is sent. */
  payload(who) {
    const events = this.events.map((e) => (e.absent ? { ...e, boundary: null } : e));
    return { events, revision: this.revision, who };
  }
}
