// The keys: which there are, and what each does.

export const KEYS = [
  ["S", "the event is at this frame: go to the next doubtful one; after the last, save and open the next clip"],
  ["Enter", "save the clip as it stands, and open the next"], [", .", "move the event a frame earlier, later (shift: ten)"],
  ["G", "move the event to the gripper's nearest edge"], ["X", "the event is not in the video"], ["K", "skip the clip"],
  ["E", "the other side of the event's span, and back: it may start or end on its own (Delete: it meets its neighbour again)"],
  ["A", "add an event at this frame"], ["R", "rename the event"], ["C", "split the event's subtask in two at this frame"],
  ["Delete", "take the event out of the list"],
  ["← →", "a frame back, on (shift: ten)"], ["Home, End", "first, last frame"], ["space, N, B", "play or pause, play, pause"],
  ["V", "another camera beside the first"], ["[ ]", "slower, faster"], ["L", "loop around the event"], ["1 … 9", "choose an event"],
  ["Ctrl + Z, Y", "undo, redo, through all clips"], ["Ctrl + S", "save"], ["↑ ↓", "clip above, below"],
];
const ONCE = /^(Enter| |Delete|Backspace|[a-z])$/i; // keys that do nothing more while they are held down
const ANY_TIME = /^(ArrowUp|ArrowDown|\?)$/; // keys that change nothing
const NUDGES = { ",": -1, ".": 1, "<": -10, ">": 10, ";": -10, ":": 10 };

export const isText = (at) => /^(INPUT|TEXTAREA)$/.test(at.tagName) && at.type !== "checkbox";

/** A key was pressed somewhere in the reviewer `app`. */
export function press(app, e) {
  const at = e.composedPath()[0];
  const control = e.ctrlKey || e.metaKey;
  if (e.key === "Escape") app.menu.root.open = false;
  if (app.asks || e.altKey || e.isComposing) return;
  const field = isText(at) || (at.tagName === "SELECT" && !app.pointed);
  const leaves = control ? e.key.toLowerCase() === "s" : isText(at) && /^(Enter|Escape)$/.test(e.key);
  if (field && !leaves) return;
  if (field || at.tagName === "SELECT") app.focus(); // what was typed counts from now on
  const act = field && !control ? null : control ? controlled(app, e) : plain(app, e, at);
  if (!act) return;
  e.preventDefault();
  e.stopPropagation();
  // A key that is held down saves one clip, not one after another; and what is not here yet takes no changes.
  if (!(e.repeat && !control && ONCE.test(e.key)) && (!app.busy || ANY_TIME.test(e.key))) act();
}

function controlled(app, e) {
  return { s: () => app.save(false), z: () => (e.shiftKey ? app.redo() : app.undo()), y: () => app.redo() }[e.key.toLowerCase()];
}

/** What a key without Ctrl does; nothing where it is not the reviewer's. */
function plain(app, { key, shiftKey }, at) {
  const { listing, player, queue } = app;
  const pressed = /^(BUTTON|SUMMARY|INPUT)$/.test(at.tagName) && !app.pointed;
  if (pressed && (key === " " || key === "Enter")) return null;
  const way = { ArrowLeft: -1, ArrowRight: 1 }[key];
  const grip = at.closest?.("[data-event]");
  if (way && grip) return () => app.nudge(Number(grip.dataset.event), way * (shiftKey ? 10 : 1), grip.dataset.part === "own");
  if (way) return () => player.step(way * (shiftKey ? 10 : 1));
  if (NUDGES[key]) return () => app.nudge(app.selected, NUDGES[key]);
  if (/^[1-9]$/.test(key)) return () => app.select(Number(key) - 1);
  const out = () => (app.draft.part ? app.join() : listing.drop(app.selected));
  const beside = (k) => () => { const to = queue.beside(k); if (to != null) app.open(to); };
  return {
    a: () => listing.add(), r: () => listing.rename(app.selected), c: () => listing.split(app.selected),
    Delete: out, Backspace: out, e: () => app.edge(app.selected),
    s: () => app.confirm(), g: () => app.snap(app.selected), x: () => app.toggle(app.selected), k: () => app.skip(), l: () => app.loop(),
    " ": () => player.toggle(), v: () => player.look(), n: () => player.play(), b: () => player.stop(), "[": () => player.faster(-1), "]": () => player.faster(1),
    Home: () => player.step(-Infinity), End: () => player.step(Infinity),
    Enter: () => app.accept(), ArrowUp: beside(-1), ArrowDown: beside(1), "?": () => app.showKeys(),
  }[key.length === 1 ? key.toLowerCase() : key];
}
