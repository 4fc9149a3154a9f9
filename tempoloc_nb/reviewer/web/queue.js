// The list of clips, the least certain first. Only the lines that are seen are in the page.
import { button, el, percent } from "./times.js";

const LINE = 46; // pixels
const toDo = (line) => !line.saves && !line.skip;

export class Queue {
  constructor(onPick) {
    this.onPick = onPick;
    this.lines = [];
    this.shown = [];
    this.current = -1;
    this.unsaved = new Set();
    const refresh = () => this.refresh();
    this.search = el("input", { type: "search", placeholder: "Find a clip", "aria-label": "Find a clip", oninput: refresh });
    this.task = el("select", { "aria-label": "Task", onchange: refresh });
    this.status = this._select("Status",
      [["", "All"], ["todo", "To do"], ["done", "Reviewed"], ["skipped", "Skipped"], ["video", "With a video"]], refresh);
    this.order = this._select("Order", [["sure", "Least sure"], ["given", "As given"]], refresh);
    this.doubt = this._select("", [["", ""], ...[90, 75, 50].map((p) => [p / 100, `Below ${p} %`])], refresh);
    this.missing = el("input", { type: "checkbox", onchange: refresh });
    this.body = el("div", { class: "lines" });
    this.list = el("div", { class: "list", role: "listbox", "aria-label": "Clips", tabindex: 0 }, this.body);
    this.list.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.list);
    this.count = el("span", { class: "count" });
    this.empty = el("div", { class: "empty", role: "status", hidden: true });
    this.root = el("nav", { class: "queue" },
      el("div", { class: "filters" }, this.search, el("div", { class: "pair" }, this.task, this.status), el("div", { class: "pair" }, this.order, this.doubt),
        el("label", { class: "check" }, this.missing, "Missing an event"), this.count),
      this.list, this.empty);
  }

  _select(name, options, onchange) {
    return el("select", { "aria-label": name, onchange }, options.map(([value, text]) => el("option", { value }, text)));
  }

  /** Show these clips; `sure` is what the share behind an event is: its confidence, or the agreement of the answers. */
  fill(lines, sure) {
    this.sure = sure;
    const name = sure[0].toUpperCase() + sure.slice(1);
    this.doubt.setAttribute("aria-label", name);
    this.doubt.options[0].textContent = name;
    this.lines = lines.map((line, index) => ({ ...line, index }));
    const tasks = [...new Set(lines.map((l) => l.task))];
    this.task.replaceChildren(el("option", { value: "" }, "All tasks"), ...tasks.map((t) => el("option", { value: t }, t)));
    this.task.hidden = tasks.length < 2;
    this.doubt.hidden = lines.every((l) => l.confidence == null);
    if (this.doubt.hidden) this.order.value = "given";
    this.refresh();
  }

  update(index, line) {
    Object.assign(this.lines[index], line);
    this.draw();
  }

  _state(line, wanted) {
    return !wanted || { video: line.video, todo: toDo(line), skipped: line.skip, done: line.saves > 0 && !line.skip }[wanted];
  }

  /** Below which share an event is doubtful. */
  get limit() {
    return Number(this.doubt.value) || Infinity;
  }

  refresh() {
    const words = this.search.value.toLowerCase();
    const fits = (l) =>
      l.clip.toLowerCase().includes(words) && (!this.task.value || l.task === this.task.value) &&
      this._state(l, this.status.value) && (l.confidence ?? 0) < this.limit &&
      (!this.missing.checked || l.missing.length > 0);
    this.shown = this.lines.filter(fits);
    if (this.order.value === "sure") this.shown.sort((a, b) => b.video - a.video || (a.confidence ?? 2) - (b.confidence ?? 2) || a.index - b.index);
    this.list.scrollTop = 0;
    this._tellEmpty();
    this.draw();
  }

  draw() {
    const [done, skipped] = ["done", "skipped"].map((state) => this.lines.filter((l) => this._state(l, state)).length);
    const some = this.shown.length === this.lines.length ? "" : `${this.shown.length} shown · `;
    this.count.textContent = `${some}${done} of ${this.lines.length} reviewed${skipped ? ` · ${skipped} skipped` : ""}`;
    this.body.style.height = `${this.shown.length * LINE}px`;
    const first = Math.max(0, Math.floor(this.list.scrollTop / LINE) - 4);
    const many = Math.ceil(this.list.clientHeight / LINE) + 8;
    this.body.replaceChildren(...this.shown.slice(first, first + many).map((l, k) => this._line(l, first + k)));
    const here = this.body.querySelector('[aria-selected="true"]');
    if (here) this.list.setAttribute("aria-activedescendant", here.id);
    else this.list.removeAttribute("aria-activedescendant");
  }

  /** What an empty list lacks, and the way out of it. */
  _tellEmpty() {
    this.list.hidden = !this.shown.length;
    this.empty.hidden = this.shown.length > 0;
    const chosen = [this.task, this.status, this.doubt].filter((field) => field.value).map((field) => field.selectedOptions[0].text);
    const named = this.search.value && `“${this.search.value}” in its name`;
    const wanted = [named, ...chosen, this.missing.checked && "Missing an event"].filter(Boolean).join(", ");
    const many = this.lines.length;
    this.empty.replaceChildren(...(many
      ? [el("p", {}, `No clip has all of this: ${wanted}.`), button(`Show all ${many} clips`, "Take every filter off", () => this.all())]
      : ["There are no clips here. End this review, and open a folder with videos, or a manifest."]));
  }

  /** Take every filter off. */
  all() {
    for (const field of [this.search, this.task, this.status, this.doubt]) field.value = "";
    this.missing.checked = false;
    this.refresh();
    this.list.focus();
  }

  _line(l, place) {
    const sure = l.confidence == null ? "" : `${percent(l.confidence)}%`;
    const state = this.unsaved.has(l.index) ? "unsaved" : l.skip ? "skipped" : l.saves ? "done" : "todo";
    const title = { unsaved: "changed, not saved", done: "reviewed", skipped: "skipped", todo: "to do" }[state];
    const name = l.clip.startsWith(`${l.task}/`) ? l.clip.slice(l.task.length + 1) : l.clip;
    const line = el("div", {
      class: `line ${state}`, role: "option", id: `clip-${l.index}`,
      "aria-setsize": this.shown.length, "aria-posinset": place + 1, "aria-selected": l.index === this.current ? "true" : "false",
      onclick: () => this.onPick(l.index), title: `${l.clip}: ${title}`,
    }, el("span", { class: "dot", role: "img", "aria-label": title }),
      el("span", { class: "name" }, el("b", {}, name), el("small", {}, l.missing.length ? `lacks ${l.missing.join(", ")}` : l.task)),
      sure && el("span", { class: "sure", title: `${this.sure} of the least certain event` }, el("i", {}), sure));
    line.style.top = `${place * LINE}px`;
    const bar = line.querySelector("i");
    if (bar) bar.style.width = `${Math.round(100 * l.confidence)}%`;
    return line;
  }

  /** Show a clip as the current one, and bring its line into view. */
  pick(index) {
    this.current = index;
    const place = this.shown.findIndex((l) => l.index === index);
    const top = place * LINE;
    if (place >= 0 && (top < this.list.scrollTop || top + LINE > this.list.scrollTop + this.list.clientHeight)) {
      this.list.scrollTop = top - this.list.clientHeight / 2;
    }
    this.draw();
  }

  get place() {
    return this.shown.findIndex((l) => l.index === this.current);
  }

  /** The clip `way` lines on in what is shown; undefined at an end. */
  beside(way) {
    return this.shown[this.place + way]?.index;
  }

  /** The clip to do next: from the current one on, then from the top; undefined if none is left. */
  next() {
    const { place, shown } = this;
    return [...shown.slice(place + 1), ...shown.slice(0, Math.max(0, place))].find(toDo)?.index;
  }
}
