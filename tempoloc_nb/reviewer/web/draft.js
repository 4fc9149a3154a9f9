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
    this.part = false; // whether the span's own start or end is chosen, and not the boundary
    this.take(details);
  }

  /** Start from what is saved; what was done before can still be undone. `own`: it is what this draft has sent. */
  take(details, own = false) {
    this.details = details;
    this.rebase(details, own && this.events.length === details.labels.length ? this.events.map((e) => e.id) : numbers(details));
    this.events = this.base.map((e, i) => ({ ...e, absent: isGone(details, i), why: "" }));
    this.note = details.remark.note;
    this.skip = details.remark.skip;
    this.seen = new Set(details.saves > 0 ? this.base.map((e) => e.id) : []); // events that a person has looked at
    this.first = this._said();
  }

  /** Go on from another save than the one that this draft began with. */
  rebase(details, ids = numbers(details)) {
    this.revision = details.revision;
    this.base = details.labels.map((label, i) => ({ id: ids[i], label, boundary: details.boundaries[i], edge: details.edges[i] }));
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
    return JSON.stringify({ events: this.events, note: this.note, skip: this.skip, selected: this.selected, part: this.part, seen: [...this.seen] });
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
    this.events.splice(i, 0, { id, label, boundary, edge: null, absent: false, why: "" });
    this.look(i);
    return i;
  }

  /** Take event `i` out. */
  remove(i, mark = true) {
    if (mark) this.mark();
    this.events.splice(i, 1);
    this.selected = Math.max(0, Math.min(i, this.events.length - 1));
  }

  /** How far the span of event `i` of `events` can reach on one `side` (s): to its neighbour, or where the clip begins or ends. */
  far(i, side = this.details.side, events = this.events) {
    const own = events[i].boundary;
    const times = events.filter((e) => !e.absent && e.boundary != null).map((e) => e.boundary);
    return side === "start" ? Math.max(0, ...times.filter((t) => t < own))
      : Math.min(this.details.duration ?? own + 1, ...times.filter((t) => t > own));
  }

  /** Where the subtask that ends with event `i`, or its span on a `side`, can be cut (s): at `time` if that is within it, else in its middle. */
  within(i, time, side = "start") {
    const [begin, end] = [this.events[i].boundary, this.far(i, side)].sort((a, b) => a - b);
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

  /** Put boundary `i`, or the own start or end of its span (`part`), at the frame nearest to `time`. */
  move(i, time, mark = true, part = false) {
    if (mark) this.mark();
    const at = snapped(this.details.times, time);
    Object.assign(this.events[i], part ? { edge: at } : { boundary: at, absent: false });
    this.look(i);
  }

  /** The time of event `i`'s boundary, or of the own start or end of its span. */
  time(i, part = false) {
    const e = this.events[i];
    return part ? e?.edge : e?.boundary;
  }

  /** Put back what a save changed. */
  restore(save) {
    this.mark();
    for (const { label, old, was, added, removed, edges } of save.changed) {
      const i = this.events.findIndex((e) => e.label === label);
      if (removed && i < 0) this.insert(label, old ?? 0, false);
      else if (added && i >= 0 && this.events.length > 1) this.remove(i, false);
      else if (i >= 0) Object.assign(this.events[i], { label: was ?? label, boundary: old ?? null, absent: false, ...(edges && { edge: edges[0] }) });
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
    return this.events.map((e, i) => {
      const named = this._misnamed(e);
      if (e.absent || named) return named;
      if (e.boundary == null) return "not set: mark it, or say that it is absent";
      const wrong = this.details.in_order && e.boundary <= before ? `must come after ${last}` : "";
      const end = this.details.duration;
      if (end && e.boundary > end + 1e-6) return "after the end of the video";
      before = Math.max(before, e.boundary);
      last = e.label;
      return wrong || this._reaches(e, i);
    });
  }

  /** What is wrong with the own start or end of event `i`'s span. */
  _reaches(e, i) {
    const { side, in_order: ordered } = this.details;
    if (e.edge == null) return "";
    if (side === "start" ? e.edge >= e.boundary : e.edge <= e.boundary) return "must start before it ends";
    const beyond = (e.edge - this.far(i)) * (side === "start" ? -1 : 1) > 1e-6;
    if (!beyond || !ordered) return "";
    const was = this.base.findIndex(({ id }) => id === e.id); // what overlapped before may stay
    const isNew = e.edge !== this.base[was]?.edge || (side === "start" && this.far(i) !== this.far(was, side, this.base));
    return isNew ? `reaches beyond what is ${side === "start" ? "before" : "after"} it` : "";
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
    const sent = ({ label, boundary, absent, why }, was, edge) => ({ label, boundary: absent ? null : boundary, absent, why, was, edge });
    // A span that gave up its own start or end meets its neighbour.
    const edge = (e, i) => (e.absent || e.edge === (this.saved(e)?.edge ?? null) ? null : e.edge ?? this.far(i));
    const events = stays ? undefined : this.events.map((e, i) => sent(e, this.saved(e)?.label ?? null, edge(e, i)));
    const gone = stays ? [] : this.base.filter((e) => !this.events.some((now) => now.id === e.id));
    return { events, removed: gone.map((e) => e.label), note, skip, revision, who };
  }
}
