// The timeline: what the person says, the truth, the model's median and trials, a no-video baseline and the gripper.
import { button, el, failure, nearest, percent, seconds, signed, snapped } from "./times.js";

export const COLOURS = ["#7b3fa0", "#a15c00", "#56636f", "#a8447f", "#7a5d24", "#0c7676"]; // of events: white text is legible on each
/** The colour of an event, which stays with it when others are added. */
export const colour = ({ id }, details) => COLOURS[(id < 0 ? details.asked.length - 1 - id : id) % COLOURS.length];
const LEFT = 74;
const ROW = 24;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20000]; // frames from tick to tick
const CATCH = 5; // pixels
const APART = 13; // pixels between events whose numbers can both be read
const MEANS = {
  you: "the subtasks as they stand: each ends at the boundary of its event; a square is where a span starts, or ends, on its own",
  truth: "the boundaries that the clips came with",
  median: "the model's median; the band is how far its trials lie from it, the line its interval, a cross an attempt that failed",
  trials: "a line for each trial, a mark for each event",
  "no video": "an answer that needs no video: the median of the other clips, or equal parts",
  gripper: "how far the gripper is open: up is open; a mark is where fingers touch, or come free",
};

export class Timeline {
  constructor(actions) {
    this.actions = actions; // seek(time), select(i, seeks, part), focus(), grab(i), drag(i, time, part), drop(i)
    this.svg = el("svg", { class: "axis", role: "group", "aria-label": "Timeline" });
    this.hint = el("span", { class: "hint" }, "Drag a boundary. ",
      el("span", {}, "The keys , and . move it by a frame, S goes on. Ctrl + wheel zooms, the wheel moves."));
    this.root = el("section", { class: "timeline", "aria-label": "Timeline" },
      el("div", { class: "zoom" }, this.hint, el("span", { class: "space" }),
        button("−", "Zoom out", () => this.zoom(2)), button("+", "Zoom in", () => this.zoom(0.5)),
        button("Fit", "Whole clip", () => this.fit())),
      this.svg);
    this.time = 0;
    this.selected = 0;
    this.svg.addEventListener("wheel", (e) => this._wheel(e), { passive: false });
    this.svg.addEventListener("pointerdown", (e) => this._down(e));
    this.svg.addEventListener("pointermove", (e) => this._moved(e));
    for (const name of ["pointerup", "pointercancel"]) this.svg.addEventListener(name, (e) => this._up(e));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  load(details, draft) {
    this.details = details;
    this.draft = draft;
    const last = details.times.at(-1) ?? 0;
    const known = [details.duration ?? 0, last, ...details.boundaries.map((b) => b ?? 0), 1e-3];
    this.end = Math.max(...known);
    this.fit();
  }

  fit() {
    this.view = [0, this.end];
    this.draw();
  }

  get width() {
    return Math.max(120, this.svg.clientWidth - LEFT - 12);
  }

  x(time) {
    return LEFT + (this.width * (time - this.view[0])) / (this.view[1] - this.view[0]);
  }

  t(x) {
    return this.view[0] + ((x - LEFT) / this.width) * (this.view[1] - this.view[0]);
  }

  zoom(factor, around = this.time) {
    const [a, b] = this.view;
    const span = Math.min(this.end, Math.max(0.2, (b - a) * factor));
    const share = Math.min(1, Math.max(0, (around - a) / (b - a)));
    this._look(around - span * share, span);
  }

  _look(from, span = this.view[1] - this.view[0]) {
    const start = Math.max(0, Math.min(this.end - span, from));
    this.view = [start, start + span];
    this.draw();
  }

  /** Bring `time` into view. */
  reveal(time) {
    if (!this.view || (time >= this.view[0] && time <= this.view[1])) return;
    this._look(time - (this.view[1] - this.view[0]) / 2);
  }

  at(time) {
    this.time = time;
    if (this.dragging == null) this.reveal(time);
    if (this.needle) this._needle();
  }

  _wheel(e) {
    if (!this.view) return;
    const zooms = e.ctrlKey || e.metaKey;
    if (!zooms && this.view[1] - this.view[0] >= this.end - 1e-9) return; // nothing to move: the page scrolls
    e.preventDefault();
    if (zooms) this.zoom(Math.exp(e.deltaY / 300), this.t(e.offsetX));
    else this._look(this.view[0] + ((e.deltaX || e.deltaY) / this.width) * (this.view[1] - this.view[0]));
  }

  _place(e) {
    return this.t(e.clientX - this.svg.getBoundingClientRect().left);
  }

  _down(e) {
    if (e.button || !this.view) return;
    const grip = e.target.closest("[data-event]");
    this.svg.setPointerCapture(e.pointerId);
    this.actions.focus(); // keys belong to the reviewer from now on
    if (grip) {
      this.dragging = Number(grip.dataset.event);
      this.part = grip.dataset.part === "own";
      this.off = this._place(e) - this.draft.time(this.dragging, this.part);
      this.moved = false;
      this.actions.select(this.dragging, true, this.part);
    } else {
      this.dragging = -1;
      this.actions.seek(this._place(e));
    }
    e.preventDefault();
  }

  _moved(e) {
    if (this.dragging == null) return;
    if (this.dragging < 0) return this.actions.seek(this._place(e));
    const time = this._caught(Math.min(this.end, Math.max(0, this._place(e) - this.off)), e.altKey);
    if (!this.moved && snapped(this.details.times, time) === this.draft.time(this.dragging, this.part)) return;
    if (!this.moved) this.actions.grab(this.dragging);
    this.moved = true;
    this.actions.drag(this.dragging, time, this.part);
  }

  /** A boundary that is dragged near an instant at which the gripper moves is caught there; `free`: with Alt held down. */
  _caught(time, free) {
    const edges = this.details.gripper?.edges ?? [];
    const edge = edges[nearest(edges, time)];
    return !free && edge != null && Math.abs(this.x(edge) - this.x(time)) <= CATCH ? edge : time;
  }

  _up() {
    if (this.dragging >= 0 && this.moved) this.actions.drop(this.dragging);
    this.dragging = null;
  }

  /** Everything anew: a clip has few marks. */
  draw() {
    if (!this.details || !this.svg.clientWidth) return;
    const d = this.details;
    const rows = [["you", (y) => this._spans(y)]];
    if (d.truth) rows.push(["truth", (y) => this._ticks(d.truth, y, "truth")]);
    if (d.model) rows.push(["median", (y) => this._median(y)]);
    if (d.trials.length > 1) rows.push([`${d.trials.length} trials`, (y, high) => this._trials(y, high), Math.min(48, Math.max(ROW, 8 + 3 * d.trials.length))]);
    if (d.no_video) rows.push(["no video", (y) => this._ticks(d.no_video, y, "novideo")]);
    if (d.gripper) rows.push(["gripper", (y) => this._gripper(y)]);
    const below = 12 + rows.reduce((sum, row) => sum + (row[2] ?? ROW), 0);
    const height = below + (d.times.length ? 35 : 22);
    this.svg.setAttribute("height", height);
    const parts = [el("rect", { class: "ground", x: LEFT, y: 0, width: this.width, height })];
    parts.push(...this._scale(below + 2));
    let y = 12;
    for (const [name, draw, high = ROW] of rows) {
      parts.push(el("text", { class: "row", x: LEFT - 8, y: y + high / 2 + 4 }, name, el("title", {}, MEANS[name] ?? MEANS.trials)), ...draw(y, high));
      y += high;
    }
    this.needle = el("g", { class: "needle" }, el("line", { y1: 0, y2: below }), el("polygon", { points: `-5,${below + 5} 5,${below + 5} 0,${below - 3}` }));
    parts.push(this.needle, ...this._handles(below));
    const held = this.svg.getRootNode().activeElement?.dataset;
    this.svg.replaceChildren(...parts);
    if (held?.event) this.svg.querySelector(`[data-event="${held.event}"][data-part="${held.part}"]`)?.focus({ preventScroll: true });
    this._needle();
  }

  _needle() {
    const x = this.x(this.time);
    this.needle.setAttribute("transform", `translate(${x} 0)`);
    this.needle.setAttribute("visibility", x < LEFT - 1 || x > LEFT + this.width + 1 ? "hidden" : "visible");
  }

  _inside(time) {
    return time != null && time >= this.view[0] - 1e-6 && time <= this.view[1] + 1e-6;
  }

  _scale(y) {
    const span = this.view[1] - this.view[0];
    const steps = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
    const step = steps.find((s) => (span / s) * 46 <= this.width) ?? 7200;
    const made = [];
    for (let k = Math.ceil(this.view[0] / step - 1e-9); k * step <= this.view[1] + 1e-9; k += 1) {
      const x = this.x(k * step);
      const text = step < 0.1 ? (k * step).toFixed(2) : step < 1 ? (k * step).toFixed(1) : String(k * step);
      const at = Math.min(x, LEFT + this.width + 12 - 4 * text.length); // of its middle: the last stays whole
      made.push(el("line", { class: "tick", x1: x, x2: x, y1: 0, y2: y + 2 }), el("text", { class: "tick", x: at, y: y + 15 }, text));
    }
    return [...made, ...this._frames(y)];
  }

  /** A tick for each frame, or for every fifth and so on where they are too many; some with their numbers. */
  _frames(y) {
    const frames = [...this.details.times.entries()].filter(([, t]) => this._inside(t));
    const each = (pixels) => STEPS.find((s) => (this.width * s) / frames.length >= pixels) ?? STEPS.at(-1);
    const [tick, number] = [each(5), each(46)];
    return frames.filter(([k]) => k % tick === 0).flatMap(([k, t]) => {
      const x = this.x(t);
      const line = el("line", { class: "frame", x1: x, x2: x, y1: y - 4, y2: y + 2 });
      return k % number ? [line] : [line, el("text", { class: "tick", x, y: y + 28 }, `f${k}`)];
    });
  }

  _clip(a, b) {
    const from = Math.max(this.view[0], a);
    const to = Math.min(this.view[1], b);
    return to > from ? [this.x(from), this.x(to) - this.x(from)] : null;
  }

  _spans(y) {
    let before = 0;
    const made = [];
    this.draft.events.forEach((e, i) => {
      if (e.absent || e.boundary == null) return;
      const { side } = this.details;
      const tail = e.edge != null && side === "end" && this._clip(e.boundary, e.edge);
      if (tail) made.push(el("rect", { class: "tail", x: tail[0], y: y + ROW - 5, width: tail[1], height: 3, fill: colour(e, this.details) }));
      const place = this._clip(side === "start" ? Math.max(before, e.edge ?? 0) : before, e.boundary);
      if (place) {
        const rect = el("rect", { x: place[0], y: y + 2, width: place[1], height: ROW - 6, rx: 3, fill: colour(e, this.details),
          class: i === this.selected ? "span selected" : "span" }, el("title", {}, `until ${e.label}, ${seconds(e.boundary, 3)}`));
        made.push(rect);
        if (place[1] > 40) {
          const text = el("text", { class: "label", x: place[0] + 6, y: y + ROW / 2 + 3 }, e.label);
          made.push(this._fitted(text, place[1] - 10));
        }
      }
      before = Math.max(before, e.boundary);
    });
    return made;
  }

  _fitted(text, width) {
    const most = Math.floor(width / 6.1);
    if (text.textContent.length > most) text.textContent = `${text.textContent.slice(0, Math.max(1, most - 1))}…`;
    return text;
  }

  _ticks(times, y, kind) {
    return times.flatMap((t, i) => (this._inside(t)
      ? [el("line", { class: `mark ${kind}`, x1: this.x(t), x2: this.x(t), y1: y + 3, y2: y + ROW - 5 },
        el("title", {}, `${kind === "truth" ? "truth" : "no-video baseline"}: ${this.details.asked[i]}, ${seconds(t, 3)}`))]
      : []));
  }

  _median(y) {
    const middle = y + ROW / 2 - 1;
    return [...this._log(y), ...this.details.model.events.flatMap((e, i) => {
      if (e.boundary == null) return [];
      const made = [];
      const spread = e.spread && this._clip(e.boundary - e.spread, e.boundary + e.spread);
      if (spread) made.push(el("rect", { class: "spread", x: spread[0], y: middle - 4, width: spread[1], height: 8, rx: 2 }));
      const whole = e.other != null && this._clip(Math.min(e.boundary, e.other), Math.max(e.boundary, e.other));
      if (whole) made.push(el("line", { class: "interval", x1: whole[0], x2: whole[0] + whole[1], y1: middle, y2: middle }));
      if (this._inside(e.other)) made.push(el("line", { class: "interval", x1: this.x(e.other), x2: this.x(e.other), y1: middle - 4, y2: middle + 4 }));
      if (this._inside(e.boundary)) {
        const x = this.x(e.boundary);
        made.push(el("polygon", { class: "median", points: `${x},${middle - 7} ${x + 5},${middle} ${x},${middle + 7} ${x - 5},${middle}` },
          el("title", {}, `${this.details.asked[i]}: ${seconds(e.boundary, 3)}, ${e.confidence == null ? this.details.model.name : `${this.details.model.sure} ${percent(e.confidence)} %`}`)));
      }
      return made;
    })];
  }

  /** Of a log: attempts that failed, each a cross, and the parts of which it says nothing for certain. */
  _log(y) {
    const { failed, gaps } = this.details.model;
    const middle = y + ROW / 2 - 1;
    const parts = gaps.map(([a, b]) => [this._clip(a, b), `no certain log from ${seconds(a)} to ${seconds(b)}`]).filter(([place]) => place);
    const crosses = failed.filter((e) => this._inside(e.boundary)).map((e) => {
      const x = this.x(e.boundary);
      return el("path", { class: "failed", d: `M${x - 5} ${middle - 5}l10 10m0 -10l-10 10` }, el("title", {}, failure(e)));
    });
    return [...parts.map(([[x, width], said]) => el("rect", { class: "gap", x, y: middle - 8, width, height: 16 }, el("title", {}, said))), ...crosses];
  }

  /** A tick for each event of each trial, a trial a line. */
  _trials(y, high) {
    const all = this.details.trials;
    const step = (high - 8) / all.length;
    return all.flatMap((trial, k) => trial.boundaries.flatMap((t, i) => (this._inside(t)
      ? [el("rect", { class: "trial", x: this.x(t) - 2.5, y: y + 3 + k * step, width: 5, height: Math.max(2, step - 0.6), fill: COLOURS[i % COLOURS.length] })]
      : [])));
  }

  _gripper(y) {
    const { times, values } = this.details.gripper;
    const paths = values.map((own) => times.map((t, i) => [t, own[i]]).filter(([t]) => this._inside(t))
      .map(([t, v], k) => `${k ? "L" : "M"}${this.x(t).toFixed(1)} ${(y + ROW - 4 - v * (ROW - 8)).toFixed(1)}`).join(""));
    const edges = this.details.gripper.edges.filter((t) => this._inside(t)).map((t) =>
      el("line", { class: "edge", x1: this.x(t), x2: this.x(t), y1: y + 1, y2: y + ROW - 3 }));
    return [...paths.map((d) => el("path", { class: "gripper", d }, el("title", {}, MEANS.gripper))), ...edges];
  }

  /** A square at the own start or end of event `i`'s span. */
  _own(e, i) {
    if (e.absent || e.boundary == null || !this._inside(e.edge)) return [];
    const { side } = this.details;
    const name = `${side} of ${e.label || "new event"}`;
    return [el("g", { class: i === this.selected && this.draft.part ? "handle selected" : "handle", "data-event": i, "data-part": "own", tabindex: 0,
      role: "slider", "aria-label": name, "aria-valuenow": e.edge, "aria-valuetext": seconds(e.edge, 3), "aria-valuemin": 0, "aria-valuemax": this.end,
      transform: `translate(${this.x(e.edge)} 0)`, onfocus: () => this.actions.select(i, false, true) },
    el("rect", { class: "grab", x: -7, y: 16, width: 14, height: 20 }),
    el("rect", { class: "square", x: -4, y: side === "start" ? 19 : 25, width: 8, height: 8, fill: colour(e, this.details) }), el("title", {}, `${name}: ${seconds(e.edge, 3)}`))];
  }

  /** The events whose numbers have room: the selected one's, then each that is not too near to one before it. */
  _numbered() {
    const shown = this.draft.events.map((e, i) => [i, e]).filter(([, e]) => !e.absent && this._inside(e.boundary));
    shown.sort(([i], [k]) => (k === this.selected) - (i === this.selected)); // stable: the others keep their order
    const found = new Map();
    for (const [i, e] of shown) {
      const x = this.x(e.boundary);
      if ([...found.values()].every((other) => Math.abs(other - x) >= APART)) found.set(i, x);
    }
    return found;
  }

  _handles(height) {
    const numbered = this._numbered();
    return this.draft.events.flatMap((e, i) => {
      if (e.absent || !this._inside(e.boundary)) return this._own(e, i);
      const x = this.x(e.boundary);
      const old = this.draft.saved(e)?.boundary;
      const moved = old != null && Math.abs(old - e.boundary) > 1e-6 ? `, moved ${signed(e.boundary - old)}` : "";
      return [el("g", {
        class: i === this.selected && !this.draft.part ? "handle selected" : "handle", "data-event": i, "data-part": "", tabindex: 0, role: "slider",
        "aria-label": e.label || "new event", "aria-valuenow": e.boundary, "aria-valuetext": `${seconds(e.boundary, 3)}${moved}`,
        "aria-valuemin": 0, "aria-valuemax": this.end, transform: `translate(${x} 0)`, onfocus: () => this.actions.select(i, false),
      }, el("rect", { class: "grab", x: -9, y: 0, width: 18, height }), el("line", { y1: 6, y2: height }),
      el("circle", { ...(numbered.has(i) ? { cy: 8, r: 8 } : { cy: 14, r: 3 }), fill: colour(e, this.details) }),
      ...(numbered.has(i) ? [el("text", { y: 11.5 }, String(i + 1))] : []),
      el("title", {}, `${e.label}: ${seconds(e.boundary, 3)}${moved}`)), ...this._own(e, i)];
    });
  }
}
