// The reviewer: queue, video, timeline and events, put together; keys; saving.
import { Draft, Trail } from "./draft.js";
import { Events } from "./events.js";
import { KEYS, isText, press } from "./keys.js";
import { Listing, NOTHING } from "./listing.js";
import { Menu } from "./menu.js";
import { Answers, History, Versions } from "./panels.js";
import { Player } from "./player.js";
import { Queue } from "./queue.js";
import { Timeline } from "./timeline.js";
import { button, el, nearest } from "./times.js";

const AROUND = 0.5; // seconds of a loop before and after a boundary

export class App {
  constructor(host, backend, place) {
    this.host = host;
    this.place = place;
    this.backend = backend;
    this.drafts = new Map();
    this.trail = new Trail();
    this.coming = null; // the clip that is being loaded
    this.pointed = false; // whether the mouse or a finger was used last, not a key
    this.queue = new Queue((index) => this.open(index));
    this.player = new Player((time) => this._frame(time));
    this.player.onLoop = () => this.loop();
    this.timeline = new Timeline({
      seek: (t) => this.player.halt(t),
      select: (i, seeks = true, part = false) => this.select(i, seeks, part),
      grab: () => this.draft.mark(),
      focus: () => this.focus(),
      drag: (i, t, part) => { if (part && this.backend.still) return; this.draft.move(i, t, false, part); this.player.halt(this.draft.time(i, part)); this.redraw(); },
      drop: () => this.redraw(),
    });
    this.events = new Events({
      select: (i, seeks = true) => this.select(i, seeks),
      type: (i, t, part) => this.put(i, t, part),
      edge: (i) => this.edge(i),
      join: () => this.join(),
      here: (i) => this.put(i, this.player.time),
      snap: (i) => this.snap(i),
      toggle: (i) => this.toggle(i),
      take: (i) => this.put(i, this.draft.said(this.draft.events[i]).boundary),
      ...Object.fromEntries(["add", "split", "rename", "name", "drop"].map((act) => [act, (...of) => this.listing[act](...of)])),
      reason: (i, why) => { this.draft.events[i].why = why; this._state(); },
    });
    this.listing = new Listing(this);
    this.answers = new Answers();
    this.versions = new Versions();
    this.history = new History((save) => { this.draft.restore(save); this.redraw(); });
    this._build();
  }

  _build() {
    this.title = el("h1", {}, "…");
    this.by = el("small", { class: "by" });
    this.who = el("input", { class: "who", placeholder: "your name", "aria-label": "Who corrects", size: 10 });
    this.saveButton = button("Save", "Save (Ctrl + S)", () => this.save(false), { class: "save" });
    this.nextButton = button("Save, next ▸", "Save and go to the next clip to do (Enter)", () => this.accept(), { class: "save primary" });
    this.undoButton = button("↶", "Undo (Ctrl + Z)", () => this.undo(), { "aria-label": "Undo" });
    this.redoButton = button("↷", "Redo (Ctrl + Y)", () => this.redo(), { "aria-label": "Redo" });
    this.banner = el("div", { class: "banner", role: "status", hidden: true });
    this.help = el("dialog", { class: "help" }, el("h2", {}, "Keys"),
      el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])),
      button("Close", "Close", () => this.help.close()));
    this.menu = new Menu(this);
    this.note = el("input", { class: "note", placeholder: "note on this clip", "aria-label": "Note on this clip",
      oninput: () => { this.draft.note = this.note.value; this._state(); } });
    this.skipButton = button("Skip", "Leave this clip out, and go to the next (K)", () => this.skip());
    this.remark = el("section", { class: "panel remark" }, this.note, this.skipButton);
    const list = () => this.frame.classList.toggle("listed");
    const listButton = button("☰", "Show or hide the clips", list, { class: "toggle", "aria-label": "Clips" });
    this.work = el("div", { class: "work" }, el("main", {}, this.player.root, this.timeline.root),
      el("aside", {}, this.events.root, this.remark, this.answers.root, this.history.root));
    this.frame = el("div", { class: "app", tabindex: -1 },
      el("header", {}, listButton, el("div", { class: "titles" }, this.title, this.by), el("span", { class: "space" }),
        this.undoButton, this.redoButton, this.who, this.saveButton, this.nextButton,
        button("?", "Keys", () => this.showKeys(), { class: "keys" }), this.menu.root),
      this.banner, this.queue.root, this.work, this.help, this.versions.root);
    this.host.append(this.frame);
    // A page has one reviewer, a notebook much else.
    (this.place === "page" ? window : this.frame).addEventListener("keydown", (e) => {
      press(this, e);
      this.pointed = false;
    });
    this.frame.addEventListener("pointerdown", () => { this.pointed = true; }, true);
    for (const name of ["click", "change"]) this.frame.addEventListener(name, (e) => this._clicked(e), true);
    for (const dialog of [this.help, this.versions.root]) dialog.addEventListener("close", () => this.focus());
    window.addEventListener("beforeunload", (e) => this.queue.unsaved.size && e.preventDefault());
  }

  async start() {
    try {
      const said = await this.ask({ op: "queue" });
      this.who.value = said.who;
      this.menu.fill(said);
      for (const b of [this.saveButton, this.nextButton, this.who, this.remark]) b.hidden = Boolean(this.backend.still);
      this.queue.fill(said.clips, said.sure);
      this.events.suggest(said.labels);
      const first = this.queue.next() ?? this.queue.shown[0]?.index;
      if (first != null) await this.open(first);
    } catch (error) {
      this.say(error.message, "wrong");
    }
    return this;
  }

  async ask(request) {
    const answer = await this.backend.ask(request);
    if (answer.error) throw new Error(answer.error);
    return answer;
  }

  say(text, kind = "", ...buttons) {
    this.banner.className = `banner ${kind}`;
    const close = el("button", { type: "button", "aria-label": "Close", onclick: () => this.quiet() }, "✕");
    this.banner.replaceChildren(el("span", {}, text), ...buttons, close);
    this.banner.hidden = !text;
    clearTimeout(this.timer);
    if (kind === "good") this.timer = setTimeout(() => this.quiet(), 4000);
  }

  quiet() {
    this.banner.hidden = true;
  }

  focus() {
    this.frame.focus({ preventScroll: true });
  }

  /** Whether what is on the page may be changed: not while a save is under way, or another clip is. */
  get busy() {
    return !this.draft || this.saving || this.coming != null;
  }

  /** The keys from their first, though the button that closes them stands at the end. */
  showKeys() {
    this.help.showModal();
    this.help.scrollTop = 0;
  }

  /** Whether a dialog is open: keys are its own. */
  get asks() {
    return this.help.open || this.versions.root.open;
  }

  _wait() {
    if (this.busy && this.work.contains(this.host.getRootNode().activeElement)) this.focus();
    this.work.inert = this.busy;
  }

  /** Load a clip. Until it is here, the one that is shown stays, and takes no changes. */
  async open(index) {
    this.coming = index;
    this._wait();
    this.queue.pick(index);
    this.frame.classList.remove("listed");
    try {
      const details = await this.ask({ op: "clip", index });
      if (this.coming === index) this._show(index, details);
    } catch (error) {
      if (this.coming !== index) return;
      this.coming = null;
      if (this.index != null) this.queue.pick(this.index);
      this.say(error.message, "wrong");
    } finally {
      this._wait();
    }
  }

  _show(index, details) {
    if (!this.banner.classList.contains("good")) this.quiet(); // what was done is still said over the next clip
    this.index = index;
    this.coming = null;
    const old = this.drafts.get(this.index);
    this.details = details;
    this.draft = old && (old.dirty || old.revision === details.revision) ? old : new Draft(index, details, this.trail);
    this.draft.details = details;
    this.drafts.set(this.index, this.draft);
    this.title.textContent = details.clip;
    this._by();
    this.events.load(details, this.draft);
    this.answers.load(details);
    this.history.load(details);
    this.timeline.load(details, this.draft);
    this.player.load(details, { video: (camera) => this.backend.video(index, camera), strip: () => this.backend.strip(index) });
    const { draft } = this;
    this.jump(draft.doubtful(this.queue.limit) ?? draft.doubtful() ?? 0);
    this.redraw();
    if (!this.host.getRootNode().activeElement) this.focus();
  }

  /** Say who proposed what is shown. */
  _by() {
    const d = this.details;
    const own = d.boundaries.some((t) => t != null) || d.absent.some(Boolean) ? "from the manifest" : "nothing is marked yet";
    const started = d.saves ? `saved ${d.saves}×` : d.by === "manifest" ? own : d.by;
    this.by.textContent = [d.remark.skip && "skipped", started, d.note].filter(Boolean).join(" · ");
  }

  _frame(time) {
    this.timeline.at(time);
  }

  redraw() {
    this.timeline.selected = this.selected;
    this.timeline.draw();
    this.events.draw(this.selected);
    this._state();
  }

  _state() {
    const dirty = this.draft.dirty;
    this.undoButton.disabled = !this.trail.past.length;
    this.redoButton.disabled = !this.trail.future.length;
    if (this.note.value !== this.draft.note) this.note.value = this.draft.note;
    this.skipButton.setAttribute("aria-pressed", this.draft.skip ? "true" : "false");
    if (dirty !== this.queue.unsaved.has(this.index)) {
      if (dirty) this.queue.unsaved.add(this.index);
      else this.queue.unsaved.delete(this.index);
      this.queue.draw();
    }
    this.saveButton.disabled = this.nextButton.disabled = this.draft.wrong >= 0 || Boolean(this.saving);
    this.nextButton.textContent = dirty ? "Save, next ▸" : this.details.saves || this.draft.skip ? "Next ▸" : "Accept, next ▸";
  }

  get selected() {
    return this.draft?.selected ?? 0;
  }

  /** Choose event `i`: its boundary, or the own start or end of its span (`part`). */
  select(i, seeks = true, part = false) {
    if (i < 0 || i >= this.draft.events.length) return;
    const other = i !== this.selected || part !== this.draft.part;
    Object.assign(this.draft, { selected: i, part });
    const time = this.draft.time(i, part);
    if (this.player.loop) this.player.repeat(null);
    if (seeks && time != null) this.player.halt(time);
    this.chosen = this.player.frame;
    if (other) this.redraw();
  }

  /** Choose event `i` and show its frame; where nothing is set yet, that of the event before. */
  jump(i) {
    this.select(i, false);
    const before = this.draft.events.slice(0, i + 1).findLast((e) => e.boundary != null && !e.absent);
    this.player.halt(this.draft.events[i]?.boundary ?? before?.boundary ?? 0);
    this.chosen = this.player.frame;
  }

  /** Put boundary `i`, or the own start or end of its span (`part`), at `time` (s); null where no frame is shown yet. */
  put(i, time, part = false) {
    if (time == null || !this.draft.events[i]) return;
    if (part && this.backend.still) return this.say("This page keeps the spans as they are: tempoloc review changes them");
    this.draft.move(i, time, true, part);
    Object.assign(this.draft, { selected: i, part });
    this.player.halt(this.draft.time(i, part));
    this.redraw();
  }

  /** Move boundary `i`, or the own start or end of its span, by `count` frames; from what is shown where it has no time. */
  nudge(i, count, part = this.draft.part) {
    const { times } = this.details;
    const now = this.draft.time(i, part) ?? this.player.time;
    if (now == null) return;
    if (!times.length) return this.put(i, now + count / 30, part);
    return this.put(i, times[Math.max(1, Math.min(times.length - 1, nearest(times, now) + count))], part);
  }

  /** From event `i`'s boundary to the other side of its span, and back. A span that meets its neighbour gets a start, or an end, of its own. */
  edge(i) {
    const { draft } = this;
    const e = draft.events[i];
    if (!e || e.absent || e.boundary == null) return this.say("The event has no time yet: its span has no start or end");
    if (e.edge != null) return this.select(i, true, !(draft.part && i === this.selected));
    const time = draft.within(i, this.player.time, this.details.side);
    return time == null ? this.say("The span has no frame at which it could start or end") : this.put(i, time, true);
  }

  /** The chosen event's span meets its neighbour again. */
  join() {
    const { draft, selected: i } = this;
    if (draft.events[i]?.edge == null || this.backend.still) return;
    draft.change(i, { edge: null });
    this.jump(i);
    this.redraw();
  }

  /** Put boundary `i` where the gripper closes or opens, at the instant that is nearest. */
  snap(i) {
    const edges = this.details.gripper?.edges ?? [];
    const { part } = this.draft;
    const now = this.draft.time(i, part) ?? this.player.time ?? 0;
    if (!edges.length) return this.say("This clip has no edge of a gripper");
    return this.put(i, edges[nearest(edges, now)], part);
  }

  toggle(i) {
    if (!this.draft.events[i]) return;
    this.draft.part = false;
    this.draft.change(i, { absent: !this.draft.events[i].absent });
    this.chosen = this.player.frame;
    this.redraw();
  }

  /** The event is at the frame that is shown: on to the next doubtful one, and after a clip's last, to the next clip. */
  confirm() {
    const { draft, player, selected: i } = this;
    const { playing, time } = player;
    const e = draft.events[i];
    if (!e) return this.say(NOTHING);
    if (draft.part) { // the span's own start or end is at this frame: on to its boundary
      if (time != null && !player.stands(e.edge)) this.put(i, time, true);
      return this.select(i);
    }
    // Where the picture is the boundary's own, nothing moves: a proposal may lie between two frames.
    // An absent event stays so, unless a person has gone to another frame since it was chosen.
    const there = e.absent ? player.frame === this.chosen : player.stands(e.boundary);
    const moves = time != null && (playing || !there);
    if (!moves && !e.absent && e.boundary == null) return this.say("No frame is shown: type a time, or press X", "wrong");
    this.quiet();
    draft.mark();
    if (moves) draft.move(i, time, false);
    draft.look(i);
    const later = draft.events.findIndex((other, k) => k > i && !draft.seen.has(other.id));
    if (playing && later > 0) { // as with Isaac Lab's S, it plays on
      draft.selected = later;
      return this.redraw();
    }
    const next = draft.doubtful(this.queue.limit);
    if (next == null) return this.save(true);
    this.jump(next);
    return this.redraw();
  }

  /** Save the clip as it stands, and open the next. */
  accept() {
    if (this.busy) return undefined;
    if (this.draft.dirty || !this.details.saves) this.draft.mark(); // undo comes back here
    return this.save(true);
  }

  /** Leave the clip out and open the next; again, to take it back in, still to be reviewed. */
  skip() {
    if (this.backend.still) return undefined;
    this.draft.mark();
    this.draft.skip = !this.draft.skip;
    this.redraw();
    return this.save(this.draft.skip, true);
  }

  undo() {
    return this._walk(this.trail.past, this.trail.future);
  }

  redo() {
    return this._walk(this.trail.future, this.trail.past);
  }

  /** One step along the trail, in the clip in which it was made. */
  async _walk(from, to) {
    const step = from.at(-1);
    if (this.busy || !step) return;
    if (step.index !== this.index) await this.open(step.index);
    if (step.index !== this.index || from.at(-1) !== step) return; // the clip did not come
    from.pop();
    to.push({ index: this.index, state: this.draft.state });
    this.draft.state = step.state;
    this.jump(this.selected);
    this.redraw();
  }

  loop() {
    const at = this.draft.time(this.selected, this.draft.part) ?? this.player.time;
    if (at != null) this.player.repeat(this.player.loop ? null : [Math.max(0, at - AROUND), at + AROUND]);
  }

  /** Save the clip, or what is said of it as a `whole`; then open the `next`. */
  async save(next, whole = this.draft?.skip) {
    const { draft, details } = this;
    if (this.busy) return;
    this.quiet();
    const news = !this.backend.still && (draft.dirty || !(details.saves || draft.skip));
    if (news && draft.wrong >= 0 && !whole) {
      this.say(`Not saved: ${draft.events[draft.wrong].label || "the new event"}: ${draft.faults()[draft.wrong]}`, "wrong");
      return this.select(draft.wrong);
    }
    if (news && !draft.events.length && !whole) return this.say(NOTHING);
    const done = news ? await this._send(draft, next, whole) : "";
    if (done == null || !next) return;
    const then = this.queue.next() ?? (news ? null : this.queue.beside(1));
    if (then != null) await this.open(then);
    else this.say(`${done}Nothing is left to do in this list.`, "good");
  }

  /** Send a save; what was done, or nothing if it was not, or if another clip is shown meanwhile. */
  async _send(draft, next, whole) {
    const { index } = draft;
    this.saving = true;
    this._wait();
    this._state();
    try {
      const payload = draft.payload(this.who.value, whole);
      const left = !payload.events && draft.moved ? "Its marks are not complete and not saved: Ctrl + Z brings them back. " : "";
      const answer = await this.ask({ op: "save", index, ...payload });
      if (answer.conflict) return this._conflict(answer, index, next, whole);
      draft.take(answer.now, Boolean(payload.events));
      this.queue.unsaved.delete(index);
      this.queue.update(index, answer.line);
      const done = `${draft.skip ? "Skipped" : "Saved"} ${answer.line.clip}. ${left}`;
      this.say(done, "good");
      if (this.index === index) this._saved(answer.now);
      return this.index === index && this.coming == null ? done : undefined; // the person may have gone elsewhere meanwhile
    } catch (error) {
      return this.say(`Not saved: ${error.message}`, "wrong");
    } finally {
      this.saving = false;
      this._wait();
      this._state();
    }
  }

  /** The clip as it now is, without moving the video. */
  _saved(details) {
    this.details = details;
    this.draft.details = this.timeline.details = this.events.details = details;
    this._by();
    this.history.load(details);
    this.redraw();
  }

  _conflict({ conflict, now }, index, next, whole) {
    const { draft } = this;
    if (this.index !== index) return this.say(`${conflict}. Yours is kept here: open the clip`, "wrong");
    return this.versions.open(now, draft, () => { draft.rebase(now); this.save(next, whole); }, () => {
      draft.mark(); // undo brings yours back
      draft.take(now);
      this._saved(now);
    });
  }

  /** After a click, keys are the reviewer's again; a field that takes text, and a list that is open, keep them. */
  _clicked(e) {
    const at = e.composedPath()[0];
    if (!this.pointed || isText(at) || this.asks || (e.type === "click" && at.tagName === "SELECT")) return;
    this.focus();
  }
}
