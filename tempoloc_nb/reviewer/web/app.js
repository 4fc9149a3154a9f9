// The reviewer: queue, video, timeline and events, put together; keys; saving.
import { Draft } from "./draft.js";
import { Events } from "./events.js";
import { Answers, History } from "./panels.js";
import { Player } from "./player.js";
import { Queue } from "./queue.js";
import { Timeline } from "./timeline.js";
import { el } from "./times.js";

const KEYS = [
  ["← →", "a frame back, on (shift: ten)"], ["space, N, B", "play or pause, play, pause"], ["[ ]", "slower, faster"],
  ["L", "loop around the boundary"], ["S", "the event happens now; go to the next"], ["1 … 9", "choose an event"],
  ["Tab, ← →", "move a boundary on the timeline"], ["X", "the event is missing"], ["Ctrl + Z, Y", "undo, redo"],
  ["Enter", "save and go to the next clip"], ["Ctrl + S", "save"], ["↑ ↓", "clip above, below"],
];
const AROUND = 0.5; // seconds of a loop before and after a boundary

export class App {
  constructor(host, backend, place) {
    this.host = host;
    this.place = place;
    this.backend = backend;
    this.drafts = new Map();
    this.selected = 0;
    this.queue = new Queue((index) => this.open(index));
    this.player = new Player((time) => this._frame(time));
    this.player.onLoop = () => this.loop();
    this.timeline = new Timeline({
      seek: (t) => { this.player.stop(); this.player.at(t); },
      select: (i, seeks = true) => this.select(i, seeks),
      grab: () => this.draft.mark(),
      focus: () => this.frame.focus({ preventScroll: true }),
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
    this.frame = el("div", { class: "app", tabindex: -1 },
      el("header", {}, listButton, el("div", { class: "titles" }, this.title, this.by), el("span", { class: "space" }),
        this.undoButton, this.redoButton, this.who, this.saveButton, this.nextButton,
        button("?", "Keys", () => this.help.showModal(), { class: "keys" }), this.more),
      this.banner, this.queue.root,
      el("div", { class: "work" }, el("main", {}, this.player.root, this.timeline.root),
        el("aside", {}, this.events.root, this.answers.root, this.history.root)), this.help);
    this.host.append(this.frame);
    // A page has one reviewer, a notebook much else.
    (this.place === "page" ? window : this.frame).addEventListener("keydown", (e) => this._key(e));
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
    items.push(el("p", {}, this.backend.still ? "This page saves nothing: download the table." : `Saved in ${said.output}`));
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

  async open(index) {
    this.index = index;
    this.queue.pick(index);
    this.frame.classList.remove("listed");
    try {
      const details = await this.ask({ op: "clip", index });
      if (this.index === index) this._show(details);
    } catch (error) {
      this.say(error.message, "wrong");
    }
  }

  _show(details) {
    this.quiet();
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
    const index = this.index;
    this.player.load(details, { video: () => this.backend.video(index, details), strip: () => this.backend.strip(index) });
    this.redraw();
    if (!this.host.getRootNode().activeElement) this.frame.focus({ preventScroll: true });
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

  put(i, time) {
    this.draft.move(i, time);
    this.player.stop();
    this.player.at(this.draft.events[i].boundary);
    this.redraw();
  }

  toggle(i) {
    const e = this.draft.events[i];
    this.draft.change(i, { missing: !e.missing });
    this.redraw();
  }

  undo() {
    if (this.draft.undo()) this.redraw();
  }

  redo() {
    if (this.draft.redo()) this.redraw();
  }

  loop() {
    const at = this.draft.events[this.selected]?.boundary ?? this.player.time;
    this.player.repeat(this.player.loop ? null : [Math.max(0, at - AROUND), at + AROUND]);
  }

  async save(next) {
    const { index, draft, details } = this;
    if (this.backend.still || this.saveButton.disabled) return;
    if (draft.dirty || !details.saves) {
      this.saving = true;
      this._state();
      try {
        const answer = await this.ask({ op: "save", index, ...draft.payload(this.who.value) });
        if (answer.conflict) return this._conflict(answer, index, next);
        this.queue.unsaved.delete(index);
        this.drafts.delete(index);
        this.queue.update(index, answer.line);
        this.say(`Saved ${answer.line.clip}`, "good");
        if (this.index === index && !next) this._saved(answer.now);
      } catch (error) {
        return this.say(`Not saved: ${error.message}`, "wrong");
      } finally {
        this.saving = false;
        this._state();
      }
    }
    if (next) {
      const then = this.queue.beside(1, true) ?? this.queue.beside(1);
      if (then != null) await this.open(then);
      else this._saved((await this.ask({ op: "clip", index })));
    }
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

  _conflict(answer, index, next) {
    const button = (text, onclick) => el("button", { type: "button", onclick }, text);
    this.say(answer.conflict, "wrong",
      button("Take theirs", () => { this.drafts.delete(index); this.queue.unsaved.delete(index); this.open(index); }),
      button("Keep mine, save", () => { this.draft.revision = answer.now.revision; this.quiet(); this.save(next); }));
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
        this.drafts.clear();
        this.queue.unsaved.clear();
        this.queue.fill((await this.ask({ op: "queue" })).clips);
        await this.open(this.index);
        this.say(said.note, "good");
      } catch (error) {
        this.say(error.message, "wrong");
      }
    });
    input.click();
  }

  _key(e) {
    const at = e.composedPath()[0];
    if (e.key === "Escape" && this.more.open) this.more.open = false;
    const control = e.ctrlKey || e.metaKey;
    const inField = /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName) && at.type !== "checkbox";
    if (!this.draft || this.help.open || e.altKey || (inField && !(control && e.key === "s"))) return;
    const shift = e.shiftKey ? 10 : 1;
    const grip = at.closest?.("[data-event]");
    const way = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    const act = control
      ? { s: () => this.save(false), z: () => (e.shiftKey ? this.redo() : this.undo()), y: () => this.redo() }[e.key.toLowerCase()]
      : way
        ? () => (grip ? this._nudge(Number(grip.getAttribute("data-event")), way * shift) : this.player.step(way * shift))
        : this._plain(e.key, at);
    if (!act) return;
    e.preventDefault();
    e.stopPropagation();
    act();
  }

  _plain(key, at) {
    const pressed = at.tagName === "BUTTON" || at.tagName === "SUMMARY";
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
    const playing = this.player.playing;
    this.draft.move(this.selected, this.player.time);
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
