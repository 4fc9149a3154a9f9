// The list of a clip's events: what a person adds, splits, renames and takes out.

export const NOTHING = "No event is listed: A adds one at the frame that is shown, K skips the clip";

export class Listing {
  constructor(app) {
    this.app = app;
  }

  /** Whether the list may be changed; a page without a program behind it could not keep that. */
  get _open() {
    const { still } = this.app.backend;
    if (still) this.app.say("This page keeps the list of events as it is: tempoloc review changes it");
    return !still;
  }

  /** Add an event at the frame that is shown, and ask for its name. */
  add() {
    const { player } = this.app;
    if (!this._open) return undefined;
    if (player.time == null) return this.app.say("No frame is shown: an event is added at a frame", "wrong");
    return this._added("", player.time);
  }

  /** Split the subtask that ends with event `i`, at the frame that is shown if it is within. */
  split(i) {
    const { app } = this;
    const e = app.draft.events[i];
    if (!this._open || !e) return undefined;
    if (e.absent || e.boundary == null) return app.say("The event has no time yet: there is nothing to split");
    const time = app.draft.within(i, app.player.time);
    if (time == null) return app.say("The subtask has no frame at which it could be split");
    return this._added(app.draft.fresh(`${e.label}, first part`), time);
  }

  _added(label, time) {
    const { app } = this;
    const i = app.draft.insert(label, time);
    app.draft.selected = i;
    app.player.halt(app.draft.events[i].boundary);
    app.redraw();
    app.events.rename(i);
  }

  /** Ask for another name of event `i`. */
  rename(i) {
    if (!this._open || !this.app.draft.events[i]) return;
    this.app.select(i, false);
    this.app.events.rename(i);
  }

  /** Event `i` is called `label` from now on. The name of a new one is no step of its own for undo. */
  name(i, label) {
    const { draft } = this.app;
    if (draft.events[i].label) draft.mark();
    draft.events[i].label = label;
    this.app.redraw();
  }

  /** Take event `i` out of the list. */
  drop(i) {
    const { app } = this;
    if (!this._open || !app.draft.events[i]) return undefined;
    if (app.draft.events.length === 1) return app.say("A clip keeps one event: X says that it is not in the video, K skips the clip");
    app.draft.remove(i);
    app.jump(app.selected);
    return app.redraw();
  }
}
