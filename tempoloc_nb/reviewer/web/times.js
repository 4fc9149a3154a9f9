// Times and frames. Frames are where the file says they are: nothing here knows a rate.

/** Index of the entry of the sorted `times` nearest to `time`. */
export function nearest(times, time) {
  let low = 0;
  let high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - times[low - 1] <= times[low] - time + 1e-6 ? low - 1 : low;
}

/** Index of the last entry of the sorted `times` that is not after `time`. */
export function reached(times, time) {
  const near = nearest(times, time);
  return near > 0 && times[near] > time + 1e-6 ? near - 1 : near;
}

/** `time` (s) at the nearest frame after the first, or to the millisecond where no frame is known. */
export function snapped(times, time) {
  if (times.length < 2) return Math.max(0.001, Math.round(time * 1000) / 1000);
  return times[Math.max(1, nearest(times, time))];
}

/** A confidence or an agreement (0 to 1) in whole per cent, rounded down: what is not certain never reads 100. */
export const percent = (sure) => Math.floor((100 * sure).toFixed(6));

export const seconds = (time, digits = 2) => (time == null ? "–" : `${time.toFixed(digits)} s`);

/** An attempt of a log that failed. */
export const failure = (e) => `${e.label}, ${e.outcome} at ${seconds(e.boundary)}`;

export const signed = (time) => `${time < 0 ? "−" : "+"}${Math.abs(time).toFixed(2)} s`;

/** An instant (ISO 8601) by the reader's own clock; any other text as it is. */
export function local(when) {
  const date = new Date(when);
  return Number.isNaN(date.getTime()) ? when : date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** Seconds that a person typed: 12.3, 12,3, 1:02.5, or f120 for a frame. NaN for anything else. */
export function typed(text, times) {
  const said = text.trim().replace(",", ".").replace(/\s*s$/, "");
  const frame = /^f(\d+)$/i.exec(said);
  if (frame) return times[Number(frame[1])] ?? NaN;
  const parts = said.split(":");
  if (parts.length > 3 || parts.some((p) => !/^\d+(\.\d+)?$/.test(p))) return NaN;
  return parts.reduce((sum, part) => sum * 60 + Number(part), 0);
}

/** A button. Words on it are its name, `title` says more; signs need the title as their name. */
export function button(text, title, onclick, more = {}) {
  const name = /[a-z]/i.test(text) ? null : [...(text.match(/.\d+/) ?? []), title].join(" ");
  return el("button", { type: "button", title, "aria-label": name, onclick, ...more }, text);
}

/** An element with properties (`on…` are listeners), and children. */
export function el(tag, given = {}, ...children) {
  const svg = ["svg", "g", "line", "rect", "text", "path", "circle", "title", "polygon"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((c) => c != null && c !== false));
  return made;
}
