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

/** A number for each event of a clip: its place among those that a model was asked about, below 0 where it is none of them. */
export const numbers = (details) => details.labels.map((_, k) => details.places[k] ?? -(k + 1));

export class Draft {
  /** Of clip number `index`; `trail` keeps what undo needs. */
  constructor(index, details, trail) {
    this.index = index;
    this.trail = trail;
    this.selected = 0;
    this.take(details);
  }

  /** Start from what is saved; what was done before can still be undone. `own`: it is what this draft has sent. */
  take(details, own = false) {
    this.details = details;
    this.rebase(details, own && this.events.length === details.labels.length ? this.events.map((e) => e.id) : numbers(details));
    this.events = this.base.map(({ id, label, boundary }, i) => ({ id, label, boundary, absent: isGone(details, i), why: "" }));
    this.note = details.remark.note;
    this.skip = details.remark.skip;
    this.seen = new Set(details.saves > 0 ? this.base.map((e) => e.id) : []); // events that a person has looked at
    this.first = this._said();
  }

  /** Go on from another save than the one that this draft began with. */
  rebase(details, ids = numbers(details)) {
    this.revision = details.revision;
    this.base = details.labels.map((label, i) => ({ id: ids[i], label, boundary: details.boundaries[i] }));
  }

  /** An event as it is saved; undefined for a new one. */
  saved({ id }) {
    return this.base.find((e) => e.id === id);
  }

  /** What the model said of an event; undefined where it was not asked. */
  said({ id }) {
    return this.details.model?.events[id];
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
    this.look(i);
  }

  /** A person has looked at event `i`. */
  look(i) {
    this.seen.add(this.events[i].id);
  }

  /** Put a new event at `time` (s) where it belongs in their order, and return its place. */
  insert(label, time, mark = true) {
    if (mark) this.mark();
    const boundary = snapped(this.details.times, time);
    const later = (e) => !e.absent && (e.boundary == null || e.boundary > boundary);
    const found = this.details.in_order ? this.events.findIndex(later) : -1;
    const i = found < 0 ? this.events.length : found;
    const id = Math.min(0, ...this.events.map((e) => e.id), ...this.base.map((e) => e.id)) - 1;
    this.events.splice(i, 0, { id, label, boundary, absent: false, why: "" });
    this.look(i);
    return i;
  }

  /** Take event `i` out. */
  remove(i, mark = true) {
    if (mark) this.mark();
    this.events.splice(i, 1);
    this.selected = Math.max(0, Math.min(i, this.events.length - 1));
  }

  /** Where the subtask that ends with event `i` can be split (s): at `time` if that is within it, else in its middle. */
  within(i, time) {
    const end = this.events[i].boundary;
    const begin = Math.max(0, ...this.events.map((e) => (e.absent || e.boundary == null || e.boundary >= end ? 0 : e.boundary)));
    const { times } = this.details;
    const inner = times.filter((t) => t > begin && t < end);
    if (times.length && !inner.length) return null;
    const middle = inner[inner.length >> 1] ?? (begin + end) / 2;
    return time > begin + 1e-6 && time < end - 1e-6 ? time : middle;
  }

  /** A label that no event has yet, from `label`. */
  fresh(label) {
    const known = new Set(this.events.map((e) => e.label));
    const more = (k) => (k < 2 ? label : `${label} ${k}`);
    let k = 1;
    while (known.has(more(k))) k += 1;
    return more(k);
  }

  /** Put boundary `i` at the frame nearest to `time`. */
  move(i, time, mark = true) {
    if (mark) this.mark();
    Object.assign(this.events[i], { boundary: snapped(this.details.times, time), absent: false });
    this.look(i);
  }

  /** Put back what a save changed. */
  restore(save) {
    this.mark();
    for (const { label, old, was, added, removed } of save.changed) {
      const i = this.events.findIndex((e) => e.label === label);
      if (removed && i < 0) this.insert(label, old ?? 0, false);
      else if (added && i >= 0 && this.events.length > 1) this.remove(i, false);
      else if (i >= 0) Object.assign(this.events[i], { label: was ?? label, boundary: old ?? null, absent: false });
    }
  }

  /** How sure the model is of event `i`, from 0 to 1; less than 0 where nothing is set yet. */
  sure(i) {
    const { boundary, absent } = this.events[i];
    return boundary == null && !absent ? -1 : this.said(this.events[i])?.confidence ?? 0;
  }

  /** The least sure event; with a `limit`, of those below it at which nobody has looked yet: undefined if none is left. */
  doubtful(limit) {
    const among = [...this.events.keys()].filter((i) => limit == null || (!this.seen.has(this.events[i].id) && this.sure(i) < limit));
    return among.sort((a, b) => this.sure(a) - this.sure(b) || a - b)[0];
  }

  /** What is wrong with each event, "" where nothing is. */
  faults() {
    let before = 0;
    let last = "the start";
    return this.events.map((e) => {
      const named = this._misnamed(e);
      if (e.absent || named) return named;
      if (e.boundary == null) return "not set: mark it, or say that it is absent";
      const wrong = this.details.in_order && e.boundary <= before ? `must come after ${last}` : "";
      const end = this.details.duration;
      if (end && e.boundary > end + 1e-6) return "after the end of the video";
      before = Math.max(before, e.boundary);
      last = e.label;
      return wrong;
    });
  }

  /** What is wrong with the name of an event that is new, or is called otherwise than before. */
  _misnamed(e) {
    if (!e.label) return "name it";
    const twice = e.label !== this.saved(e)?.label && this.events.some((other) => other !== e && other.label === e.label);
    return twice ? "another event has this name" : "";
  }

  /** The event that keeps the clip from being saved; −1 if none does. A clip that is skipped needs no boundaries. */
  get wrong() {
    return this.skip ? -1 : this.faults().findIndex(Boolean);
  }

  /** How far `times` are off if the draft is right: mean absolute error (s), and relative to the subtasks (%). */
  errorOf(times) {
    const parts = [];
    let before = 0;
    this.events.forEach((e) => {
      if (e.absent || e.boundary == null) return;
      if (times[e.id] != null) {
        const off = Math.abs(times[e.id] - e.boundary);
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
    const stays = whole && (!this.moved || this.faults().some(Boolean));
    const sent = ({ label, boundary, absent, why }, was) => ({ label, boundary: absent ? null : boundary, absent, why, was });
    const events = stays ? undefined : this.events.map((e) => sent(e, this.saved(e)?.label ?? null));
    const gone = stays ? [] : this.base.filter((e) => !this.events.some((now) => now.id === e.id));
    return { events, removed: gone.map((e) => e.label), note, skip, revision, who };
  }
}
