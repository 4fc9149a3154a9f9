// What a person has changed of a clip and not saved yet, and the way back through all of it.
import { snapped } from "./times.js";

/** How clips were before each change, in the order of the changes: undo goes back from clip to clip. */
export class Trail {
  constructor() {
    this.past = [];
    this.future = [];
  }

  mark(draft) {
    this.past.push({ index: draft.index, state: draft.state });
    this.future = [];
  }
}

/** Whether event `i` of a clip as it is on the other side is not in the video: said so, or saved without a boundary. */
export const isGone = (details, i) => Boolean(details.absent[i] || (details.saves > 0 && details.boundaries[i] == null));

export class Draft {
  /** Of clip number `index`; `trail` keeps what undo needs. */
  constructor(index, details, trail) {
    this.index = index;
    this.trail = trail;
    this.selected = 0;
    this.take(details);
  }

  /** Start from what is saved; what was done before can still be undone. */
  take(details) {
    this.details = details;
    this.revision = details.revision;
    const saved = details.saves > 0;
    this.events = details.labels.map((label, i) => ({
      label, boundary: details.boundaries[i], absent: isGone(details, i), why: "",
    }));
    this.note = details.remark.note;
    this.skip = details.remark.skip;
    this.seen = new Set(saved ? this.events.keys() : []); // events that a person has looked at
    this.first = this._said();
  }

  get state() {
    return JSON.stringify({ events: this.events, note: this.note, skip: this.skip, selected: this.selected, seen: [...this.seen] });
  }

  set state(text) {
    Object.assign(this, JSON.parse(text));
    this.seen = new Set(this.seen);
  }

  _said() {
    return { events: JSON.stringify(this.events), rest: JSON.stringify([this.note, this.skip]) };
  }

  /** Whether an event differs from what is saved. */
  get moved() {
    return this._said().events !== this.first.events;
  }

  get dirty() {
    return this.moved || this._said().rest !== this.first.rest;
  }

  /** Keep what is there for undo; call once before a change, or a drag. */
  mark() {
    this.trail.mark(this);
  }

  change(i, values) {
    this.mark();
    Object.assign(this.events[i], values);
    this.seen.add(i);
  }

  /** Put boundary `i` at the frame nearest to `time`. */
  move(i, time, mark = true) {
    if (mark) this.mark();
    Object.assign(this.events[i], { boundary: snapped(this.details.times, time), absent: false });
    this.seen.add(i);
  }

  /** Put back what a save changed. */
  restore(save) {
    this.mark();
    for (const { label, old } of save.changed) {
      const event = this.events.find((e) => e.label === label);
      if (event) Object.assign(event, { boundary: old ?? null, absent: false });
    }
  }

  /** How sure the model is of event `i`, from 0 to 1; less than 0 where nothing is set yet. */
  sure(i) {
    const { boundary, absent } = this.events[i];
    return boundary == null && !absent ? -1 : this.details.model?.events[i]?.confidence ?? 0;
  }

  /** The least sure event; with a `limit`, of those below it at which nobody has looked yet: undefined if none is left. */
  doubtful(limit) {
    const among = [...this.events.keys()].filter((i) => limit == null || (!this.seen.has(i) && this.sure(i) < limit));
    return among.sort((a, b) => this.sure(a) - this.sure(b) || a - b)[0];
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

  /** The event that keeps the clip from being saved; −1 if none does. A clip that is skipped needs no boundaries. */
  get wrong() {
    return this.skip ? -1 : this.faults().findIndex(Boolean);
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

  /** What the program on the other side is sent; of a clip as a `whole`, boundaries only if they were moved and are right. */
  payload(who, whole) {
    const { note, skip, revision } = this;
    const events = whole && (!this.moved || this.faults().some(Boolean)) ? undefined : this.events.map((e) => (e.absent ? { ...e, boundary: null } : e));
    return { events, note, skip, revision, who };
  }
}
