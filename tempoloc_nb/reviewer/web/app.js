// The reviewer: queue, video, timeline and events, put together; keys; saving.
import { Draft } from "./draft.js";
import { Events } from "./events.js";
import { Answers, History, Versions } from "./panels.js";
import { Player } from "./player.js";
import { Queue } from "./queue.js";
import { Timeline } from "./timeline.js";
import { el } from "./times.js";

const KEYS = [
  ["← →", "a frame back, on (shift: ten)"], ["space, N, B", "play or pause, play, pause"], ["[ ]", "slower, faster"],
  ["L", "loop around the boundary"], ["S", "the event happens now; go to the next"], ["1 … 9", "choose an event"],
  ["Tab, ← →", "move a boundary on the timeline"], ["X", "the event is not in the video"], ["Ctrl + Z, Y", "undo, redo"],
  ["Enter", "save and go to the next clip"], ["Ctrl + S", "save"], ["↑ ↓", "clip above, below"],
];
const AROUND = 0.5; // seconds of a loop before and after a boundary
const ONCE = /^(Enter| |[a-z])$/i; // keys that do nothing more while they are held down
const ANY_TIME = /^(ArrowUp|ArrowDown|\?)$/; // keys that change nothing

const isText = (at) => /^(INPUT|TEXTAREA)$/.test(at.tagName) && at.type !== "checkbox";

export class App {
  constructor(host, backend, place) {
    this.host = host;
    this.place = place;
    this.backend = backend;
    this.drafts = new Map();
    this.selected = 0;
    this.coming = null; // the clip that is being loaded
    this.pointed = false; // whether the mouse or a finger was used last, not a key
    this.queue = new Queue((index) => this.open(index));
    this.player = new Player((time) => this._frame(time));
    this.player.onLoop = () => this.loop();
    this.timeline = new Timeline({
      seek: (t) => { this.player.stop(); this.player.at(t); },
      select: (i, seeks = true) => this.select(i, seeks),
      grab: () => this.draft.mark(),
      focus: () => this.focus(),
      drag: (i, t) => { this.draft.move(i, t, false); this.player.stop(); this.player.at(this.draft.events[i].boundary); this.redraw(); },
      drop: () => this.redraw(),
    });
    this.events = new Events({
      select: (i, seeks = true) => this.select(i, seeks),
      type: (i, t) => this.put(i, t),
      here: (i) => this.put(i, this.player.time),
      toggle: (i) => this.toggle(i),
      take: (i) => this.put(i, this.details.model.events[i].boundary),
      reason: (i, why) => { this.draft.events[i].why = why; this._state(); },
    });
    this.answers = new Answers();
    this.versions = new Versions();
    this.history = new History((save) => { this.draft.restore(save); this.redraw(); });
    this._build();
  }

  _build() {
    const button = (text, title, onclick, more = {}) => el("button", { type: "button", title, onclick, ...more }, text);
    this.title = el("h1", {}, "…");
    this.by = el("small", { class: "by" });
    this.who = el("input", { class: "who", placeholder: "your name", "aria-label": "Who corrects", size: 10 });
    this.saveButton = button("Save", "Save (Ctrl + S)", () => this.save(false), { class: "save" });
    this.nextButton = button("Save, next ▸", "Save and go to the next clip to do (Enter)", () => this.save(true), { class: "save primary" });
    this.undoButton = button("↶", "Undo (Ctrl + Z)", () => this.undo(), { "aria-label": "Undo" });
    this.redoButton = button("↷", "Redo (Ctrl + Y)", () => this.redo(), { "aria-label": "Redo" });
    this.banner = el("div", { class: "banner", role: "status", hidden: true });
    this.help = el("dialog", { class: "help" }, el("h2", {}, "Keys"),
      el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)])),
      button("Close", "Close", () => this.help.close()));
    this.more = el("details", { class: "more" }, el("summary", { title: "Export and import", "aria-label": "Export and import" }, "⋯"),
      this.menu = el("div", { class: "menu" }));
    const listButton = button("☰", "Show or hide the clips", () => this.frame.classList.toggle("listed"), { class: "toggle", "aria-label": "Clips" });
    this.work = el("div", { class: "work" }, el("main", {}, this.player.root, this.timeline.root),
      el("aside", {}, this.events.root, this.answers.root, this.history.root));
    this.frame = el("div", { class: "app", tabindex: -1 },
      el("header", {}, listButton, el("div", { class: "titles" }, this.title, this.by), el("span", { class: "space" }),
        this.undoButton, this.redoButton, this.who, this.saveButton, this.nextButton,
        button("?", "Keys", () => this.help.showModal(), { class: "keys" }), this.more),
      this.banner, this.queue.root, this.work, this.help, this.versions.root);
    this.host.append(this.frame);
    // A page has one reviewer, a notebook much else.
    (this.place === "page" ? window : this.frame).addEventListener("keydown", (e) => {
      this._key(e);
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
      this._menu(said);
      this.queue.fill(said.clips);
      const first = this.queue.shown.find((l) => !l.saves) ?? this.queue.shown[0];
      if (first) await this.open(first.index);
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

  _menu(said) {
    const item = (text, act) => el("button", { type: "button", onclick: () => { this.more.open = false; act(); } }, text);
    const items = [item("Boundaries as CSV", () => this.export("csv"))];
    if (!this.backend.still) items.push(item("This clip as WebVTT", () => this.export("vtt")), item("Read CSV or WebVTT…", () => this.import()));
    if (said.annotations) items.push(item("Write LeRobot annotations", () => this.export("annotations")));
    items.push(el("p", {}, this.backend.still ? "This page saves nothing: download the table." : `Saves go to ${said.output}`));
    this.menu.replaceChildren(...items);
    for (const b of [this.saveButton, this.nextButton, this.who]) b.hidden = Boolean(this.backend.still);
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
    this.quiet();
    this.index = index;
    this.coming = null;
    const old = this.drafts.get(this.index);
    this.details = details;
    this.draft = old?.dirty ? old : new Draft(details);
    this.drafts.set(this.index, this.draft);
    this.selected = 0;
    this.title.textContent = details.clip;
    const started = details.saves ? `saved ${details.saves}×` : details.by === "manifest" ? "from the manifest" : details.by;
    this.by.textContent = [started, details.note].filter(Boolean).join(" · ");
    this.events.load(details, this.draft);
    this.answers.load(details);
    this.history.load(details);
    this.timeline.load(details, this.draft);
    this.player.load(details, { video: () => this.backend.video(index, details), strip: () => this.backend.strip(index) });
    this.redraw();
    if (!this.host.getRootNode().activeElement) this.focus();
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
    this.undoButton.disabled = !this.draft.past.length;
    this.redoButton.disabled = !this.draft.future.length;
    if (dirty !== this.queue.unsaved.has(this.index)) {
      if (dirty) this.queue.unsaved.add(this.index);
      else this.queue.unsaved.delete(this.index);
      this.queue.draw();
    }
    const wrong = this.draft.faults().some(Boolean);
    this.saveButton.disabled = this.nextButton.disabled = wrong || Boolean(this.saving);
    this.nextButton.textContent = dirty || !this.details.saves ? (dirty ? "Save, next ▸" : "Accept, next ▸") : "Next ▸";
  }

  select(i, seeks = true) {
    if (i < 0 || i >= this.draft.events.length) return;
    const other = i !== this.selected;
    this.selected = i;
    const time = this.draft.events[i].boundary;
    if (this.player.loop) this.player.repeat(null);
    if (seeks && time != null) { this.player.stop(); this.player.at(time); }
    if (other) this.redraw();
  }

  /** Put boundary `i` at `time` (s); null where no frame is shown yet. */
  put(i, time) {
    if (time == null) return;
    this.draft.move(i, time);
    this.player.stop();
    this.player.at(this.draft.events[i].boundary);
    this.redraw();
  }

  toggle(i) {
    const e = this.draft.events[i];
    this.draft.change(i, { absent: !e.absent });
    this.redraw();
  }

  undo() {
    if (!this.busy && this.draft.undo()) this.redraw();
  }

  redo() {
    if (!this.busy && this.draft.redo()) this.redraw();
  }

  loop() {
    const at = this.draft.events[this.selected]?.boundary ?? this.player.time;
    if (at != null) this.player.repeat(this.player.loop ? null : [Math.max(0, at - AROUND), at + AROUND]);
  }

  async save(next) {
    const { index, draft, details } = this;
    if (this.backend.still || this.busy || this.saveButton.disabled) return;
    if (draft.dirty || !details.saves) {
      this.saving = true;
      this._wait();
      this._state();
      try {
        const answer = await this.ask({ op: "save", index, ...draft.payload(this.who.value) });
        if (answer.conflict) return this._conflict(answer, index, next);
        this.queue.unsaved.delete(index);
        this.drafts.delete(index);
        this.queue.update(index, answer.line);
        this.say(`Saved ${answer.line.clip}`, "good");
        if (this.index === index) this._saved(answer.now);
        if (this.index !== index || this.coming != null) return undefined; // the person went elsewhere meanwhile
      } catch (error) {
        return this.say(`Not saved: ${error.message}`, "wrong");
      } finally {
        this.saving = false;
        this._wait();
        this._state();
      }
    }
    const then = next ? this.queue.beside(1, true) ?? this.queue.beside(1) : null;
    return then == null ? undefined : this.open(then);
  }

  /** The clip as it now is, without moving the video. */
  _saved(details) {
    this.details = details;
    this.draft.take(details);
    this.drafts.set(this.index, this.draft);
    this.timeline.details = this.events.details = details;
    this.by.textContent = `saved ${details.saves}×`;
    this.history.load(details);
    this.redraw();
  }

  _conflict({ conflict, now }, index, next) {
    const { draft } = this;
    if (this.index !== index) return this.say(`${conflict}. Yours is kept here: open the clip`, "wrong");
    return this.versions.open(now, draft, () => { draft.revision = now.revision; this.save(next); }, () => {
      draft.mark(); // undo brings yours back
      this._saved(now);
    });
  }

  async export(kind) {
    try {
      const said = kind === "csv" && this.backend.still
        ? this.backend.table(this.drafts)
        : await this.ask({ op: "export", kind, index: this.index });
      if (said.note) return this.say(said.note, "good");
      const url = URL.createObjectURL(new Blob([said.text], { type: "text/plain" }));
      el("a", { href: url, download: said.file }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    } catch (error) {
      this.say(error.message, "wrong");
    }
  }

  import() {
    const input = el("input", { type: "file", accept: ".csv,.tsv,.vtt,text/csv,text/vtt" });
    input.addEventListener("change", async () => {
      try {
        const [file] = input.files;
        const kind = file.name.toLowerCase().endsWith(".vtt") ? "vtt" : "csv";
        const said = await this.ask({ op: "import", kind, text: await file.text(), who: this.who.value });
        this.queue.fill((await this.ask({ op: "queue" })).clips);
        await this.open(this.index);
        this.say(said.note, "good");
      } catch (error) {
        this.say(error.message, "wrong");
      }
    });
    input.click();
  }

  /** After a click, keys are the reviewer's again; a field that takes text, and a list that is open, keep them. */
  _clicked(e) {
    const at = e.composedPath()[0];
    if (!this.pointed || isText(at) || this.asks || (e.type === "click" && at.tagName === "SELECT")) return;
    this.focus();
  }

  _key(e) {
    const at = e.composedPath()[0];
    const control = e.ctrlKey || e.metaKey;
    if (e.key === "Escape" && this.more.open) this.more.open = false;
    if (this.asks || e.altKey || e.isComposing) return;
    const field = isText(at) || (at.tagName === "SELECT" && !this.pointed);
    const leaves = control ? e.key.toLowerCase() === "s" : isText(at) && /^(Enter|Escape)$/.test(e.key);
    if (field && !leaves) return;
    if (field || at.tagName === "SELECT") this.focus(); // what was typed counts from now on
    const act = field && !control ? null : this._act(e, at, control);
    if (!act) return;
    e.preventDefault();
    e.stopPropagation();
    // A key that is held down saves one clip, not one after another; and what is not here yet takes no changes.
    if (!(e.repeat && !control && ONCE.test(e.key)) && (!this.busy || ANY_TIME.test(e.key))) act();
  }

  /** What a key does; nothing where it is not the reviewer's. */
  _act(e, at, control) {
    if (control) return { s: () => this.save(false), z: () => (e.shiftKey ? this.redo() : this.undo()), y: () => this.redo() }[e.key.toLowerCase()];
    const way = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!way) return this._plain(e.key, at);
    const grip = at.closest?.("[data-event]");
    const count = way * (e.shiftKey ? 10 : 1);
    return () => (grip ? this._nudge(Number(grip.getAttribute("data-event")), count) : this.player.step(count));
  }

  _plain(key, at) {
    const pressed = /^(BUTTON|SUMMARY|INPUT)$/.test(at.tagName) && !this.pointed;
    if (pressed && (key === " " || key === "Enter")) return null;
    const beside = (k) => () => { const to = this.queue.beside(k); if (to != null) this.open(to); };
    const known = {
      " ": () => this.player.toggle(), n: () => this.player.play(), b: () => this.player.stop(), s: () => this._subtask(),
      l: () => this.loop(), x: () => this.toggle(this.selected), "[": () => this.player.faster(-1), "]": () => this.player.faster(1),
      Enter: () => this.save(true), ArrowUp: beside(-1), ArrowDown: beside(1), "?": () => this.help.showModal(),
    };
    if (/^[1-9]$/.test(key)) return () => this.select(Number(key) - 1);
    return known[key.length === 1 ? key.toLowerCase() : key];
  }

  /** Isaac Lab's S: the subtask ends at the frame that is shown; the next event is chosen. */
  _subtask() {
    const { playing, time } = this.player;
    if (time == null) return;
    this.draft.move(this.selected, time);
    this.selected = Math.min(this.selected + 1, this.draft.events.length - 1);
    this.redraw();
    if (playing) this.player.play();
  }

  _nudge(i, count) {
    const { times } = this.details;
    const now = this.draft.events[i].boundary;
    if (!times.length) return this.put(i, now + count / 30);
    const k = times.findIndex((t) => t >= now - 1e-6);
    return this.put(i, times[Math.max(1, Math.min(times.length - 1, (k < 0 ? times.length - 1 : k) + count))]);
  }
}
