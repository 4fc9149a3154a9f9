// The video: a frame at a time by the file's own frame times, slow motion, and a loop around a boundary.
// A seek has ended when the browser says that it presents the frame: some show the one before, and are sent again.
import { button, el, nearest, reached, seconds } from "./times.js";

const RATES = [4, 2, 1, 0.5, 0.25, 0.1];
const COLUMNS = 10;
const PATIENCE = 300; // ms in which the frame of an ended seek is presented
// Where to seek in a frame's time (0: where it begins, 1: where the next does), and how many frames off to come from.
const TRIES = [[0.5, 0], [0.8, 0], [0.95, 0], [0.2, 0], [0.5, -2], [0.8, 2], [0.5, -15], [0.8, 15]];

export class Player {
  constructor(onFrame) {
    this.onFrame = onFrame;
    this.asked = null; // the frame that was asked for; null while it plays
    this.picture = null; // the frame that is presented; null before the first
    this.seek = null; // the way to the frame that was asked for, until it is there or cannot be
    this.loop = null;
    this.times = [];
    this.strip = false;
    this.tells = "requestVideoFrameCallback" in HTMLVideoElement.prototype; // which frame it presents
    this.video = el("video", { muted: true, playsinline: true, preload: "auto", disablepictureinpicture: true });
    this.video.muted = true;
    this.second = el("video", { class: "second", muted: true, playsinline: true, preload: "auto", disablepictureinpicture: true, hidden: true });
    this.second.muted = true;
    this.second.addEventListener("loadeddata", () => this._follow());
    this.second.addEventListener("error", () => this.second.getAttribute("src") && this._beside("", "This browser does not play that camera."));
    this.cameras = el("select", { title: "Another camera beside the first (V)", "aria-label": "Second camera", onchange: () => this._beside(this.cameras.value) });
    this.tile = el("div", { class: "tile", hidden: true });
    this.message = el("p", { class: "message", hidden: true });
    this.stage = el("div", { class: "stage" }, this.video, this.second, this.tile, this.message);
    this.doubt = el("p", { class: "doubt", role: "status", hidden: true });
    this.playButton = button("▶", "Play or pause (space)", () => this.toggle());
    this.place = el("output", { class: "place" });
    this.rate = el("select", { title: "Speed ([ and ])", "aria-label": "Speed", onchange: () => this._speed() },
      RATES.map((r) => el("option", { value: r }, `${r}×`)));
    this.rate.value = 1;
    this.loopButton = button("⟲", "Loop around the boundary (L)", () => this.onLoop?.());
    this.root = el("section", { class: "player", "aria-label": "Video" }, this.stage, this.doubt,
      el("div", { class: "controls" }, button("−10", "Ten frames back (shift ←)", () => this.step(-10)),
        button("◀", "One frame back (←)", () => this.step(-1)), this.playButton,
        button("▶|", "One frame on (→)", () => this.step(1)), button("+10", "Ten frames on (shift →)", () => this.step(10)),
        this.place, el("span", { class: "space" }), this.cameras, this.loopButton, this.rate));
    this._listen();
  }

  _listen() {
    for (const name of ["seeked", "canplay"]) this.video.addEventListener(name, () => this._next());
    this.video.addEventListener("loadeddata", () => {
      if (!this.tells) this._presented(this.video.currentTime);
      else this.first ??= setTimeout(() => this._begin(this.video.currentTime), 4 * PATIENCE); // it presents none
    });
    this.video.addEventListener("error", () => this.video.getAttribute("src") && this._fallBack());
    for (const name of ["play", "pause", "ended"]) this.video.addEventListener(name, () => this._state());
    if (this.tells) return;
    for (const name of ["timeupdate", "pause"]) {
      this.video.addEventListener(name, () => this.seek || this.offset == null || this._presented(this.video.currentTime));
    }
  }

  /** Hear of each frame that the browser presents of this clip, and of none of the clip before. */
  _watch() {
    if (!this.tells) return;
    if (this.watching != null) this.video.cancelVideoFrameCallback(this.watching);
    const each = (_, about) => {
      this.watching = this.video.requestVideoFrameCallback(each);
      this._presented(about.mediaTime);
    };
    this.watching = this.video.requestVideoFrameCallback(each);
  }

  /** Show another clip: `media` gives the addresses of its video and of its strip. */
  async load(details, media) {
    this.stop();
    this.details = details;
    this.times = details.times;
    this.media = media;
    this.loop = null;
    this.offset = null; // of the file's first frame in the player's time: some files do not begin at 0
    this.asked = this.picture = this.seek = null;
    clearTimeout(this.first);
    this.first = null;
    this.strip = false;
    this.tile.hidden = true;
    this.video.hidden = false;
    this.video.removeAttribute("src");
    this.video.load();
    this._fill(details.cameras);
    this._say(details.problem ? `No video: ${details.problem.replace(/[.?]$/, "")}. Times can be typed and saved.` : "Loading…");
    this._tell();
    if (details.problem) return;
    try {
      const url = await media.video();
      if (this.details !== details) return;
      if (!url) return this._fallBack();
      this._watch();
      this.video.src = url;
      this._speed();
    } catch (error) {
      if (this.details === details) this._say(`No video: ${error.message}`);
    }
  }

  /** Which cameras there are beside the first; the one that was looked at last, if it is among them, is shown. */
  _fill(cameras) {
    const last = this.wanted ?? "";
    this.cameras.replaceChildren(el("option", { value: "" }, "One camera"), ...cameras.map((c) => el("option", { value: c }, c.split(".").at(-1))));
    this.cameras.hidden = !cameras.length;
    this._beside(cameras.includes(last) ? last : "", "", false);
  }

  /** The next camera beside the first; after the last, none. */
  look() {
    const { options, selectedIndex } = this.cameras;
    if (options.length > 1) this._beside(options[(selectedIndex + 1) % options.length].value);
  }

  /** Show `camera` beside the first; "" for none, and why. */
  async _beside(camera, why = "", keeps = true) {
    const { details, second } = this;
    if (keeps) this.wanted = camera;
    this.cameras.value = camera;
    second.hidden = !camera;
    this.stage.classList.toggle("two", Boolean(camera));
    second.removeAttribute("src");
    second.load();
    if (why) this._say(why, true);
    if (!camera) return;
    try {
      const url = await this.media.video(camera);
      if (this.details === details && this.cameras.value === camera) second.src = url;
    } catch (error) {
      if (this.details === details) this._beside("", error.message);
    }
  }

  /** Bring the second camera to the frame that is shown: both have the same frame times. */
  _follow() {
    const { second, times } = this;
    if (second.hidden || second.readyState < 1 || !times.length) return;
    const plays = this.playing && !this.strip;
    second.playbackRate = this.video.playbackRate;
    if (!plays) second.pause();
    else if (second.paused && !second.ended) second.play().catch(() => {});
    const k = this.frame;
    const at = plays ? times[k] : (times[k] + (times[k + 1] ?? times[k] + 0.02)) / 2;
    if (Math.abs(second.currentTime - at) > (plays ? 0.15 : 1e-3)) second.currentTime = at;
  }

  _say(text, small = false) {
    this.message.textContent = text;
    this.message.hidden = !text;
    this.message.classList.toggle("small", small);
  }

  /** Frames as pictures, where the browser does not play the video. */
  async _fallBack() {
    const details = this.details;
    clearTimeout(this.first);
    this._say("This browser does not play the video. Making a strip of its frames…");
    try {
      const url = await this.media.strip();
      if (this.details !== details || !url) return this._say("This browser does not play the video.");
      this.strip = true;
      this.seek = null;
      const { tiles, size: [width, height] } = details;
      this.video.hidden = true;
      this.tile.hidden = false;
      this.tile.style.backgroundImage = `url("${url}")`;
      this.tile.style.aspectRatio = `${width} / ${height}`;
      const columns = Math.min(COLUMNS, tiles.length);
      this.tile.style.backgroundSize = `${100 * columns}% ${100 * Math.ceil(tiles.length / COLUMNS)}%`;
      this._say(`This browser does not play the video: ${tiles.length} of its ${this.times.length} frames, of which the nearest is shown.`, true);
      this.show(this.frame);
    } catch (error) {
      if (this.details === details) this._say(`No picture: ${error.message}`);
    }
  }

  /** The frame from which steps count. */
  get frame() {
    return this.asked ?? this.picture ?? 0;
  }

  /** When the frame is that is seen, or is about to be; null where none is. */
  get time() {
    if (this.picture == null) return null;
    return this.times[this.seek ? this.asked : this.picture];
  }

  get playing() {
    return this.strip ? this.timer != null : !this.video.paused && !this.video.ended;
  }

  /** Show frame `k`; of many that are asked for at once the last is shown. */
  show(k) {
    if (!this.times.length) return;
    const frame = Math.max(0, Math.min(this.times.length - 1, k));
    const there = this.seek ? this.asked === frame : this.picture === frame && !this.playing;
    this.asked = frame;
    if (this.strip) this._tile();
    else if (!there) {
      clearTimeout(this.patience);
      this.seek = { tries: 0, off: false, presented: false };
      this._next();
    }
    this._tell();
  }

  at(time) {
    this.show(nearest(this.times, time));
  }

  /** Stop at the frame nearest to `time` (s). */
  halt(time) {
    this.stop();
    this.at(time);
  }

  /** Whether the frame that is asked for is that of `time` (s), and stands still. */
  stands(time) {
    return time != null && !this.playing && this.frame === nearest(this.times, time);
  }

  step(count) {
    this.stop();
    this.show(this.frame + count);
  }

  /** Go on with the seek, once the browser's seek before has ended. */
  _next() {
    const { seek, video } = this;
    if (!seek || this.offset == null || video.seeking || video.readyState < 2) return;
    if (!seek.tries || seek.off) this._send();
    else if (this.playing || !this.tells || (seek.presented && this.picture === this.asked)) this._end();
    else {
      clearTimeout(this.patience);
      this.patience = setTimeout(() => {
        if (this.seek !== seek || this.video.seeking) return;
        if (this.picture === this.asked || seek.tries === TRIES.length) this._end();
        else this._send();
      }, PATIENCE);
    }
  }

  /** Send the browser within the time of the frame, or first to another frame. */
  _send() {
    const { seek, times, asked } = this;
    clearTimeout(this.patience);
    const [share, off] = TRIES[seek.tries];
    seek.off = off !== 0 && !seek.off;
    seek.presented = false;
    if (!seek.off) seek.tries += 1;
    const beside = times[asked + off] === undefined ? asked - off : asked + off;
    const k = seek.off ? Math.max(0, Math.min(times.length - 1, beside)) : asked;
    const after = times[k + 1] ?? times[k] + 0.02;
    this.video.currentTime = this.offset + times[k] + share * (after - times[k]);
  }

  _end() {
    clearTimeout(this.patience);
    this.seek = null;
    if (!this.tells) this.picture = this.asked; // as far as one knows
    if (this.playing) this.asked = null;
    this._tell();
  }

  /** The picture is there; the file's first frame is at `offset` (s) of the player's time. */
  _begin(offset) {
    clearTimeout(this.first);
    if (this.offset != null || this.strip) return;
    this.offset = offset;
    this._say("");
    this._next();
    this._tell();
  }

  /** The browser presents the frame of this PTS. */
  _presented(time) {
    if (!this.times.length || this.strip) return;
    this._begin(time);
    const since = time - this.offset;
    this.picture = this.tells ? nearest(this.times, since) : reached(this.times, since);
    if (this.seek) {
      this.seek.presented = true;
      return this._next();
    }
    if (this.playing) this.asked = null;
    this._tell();
    this._around();
  }

  _around() {
    if (this.loop && this.playing && (this.times[this.frame] >= this.loop[1] || this.frame === this.times.length - 1)) {
      this.show(nearest(this.times, this.loop[0]));
    }
  }

  /** Show the tile nearest to the frame that is asked for. */
  _tile() {
    const { tiles } = this.details;
    const place = nearest(tiles, this.asked);
    this.picture = tiles[place];
    const columns = Math.min(COLUMNS, tiles.length);
    const rows = Math.ceil(tiles.length / COLUMNS);
    const part = (k, n) => (n > 1 ? (100 * k) / (n - 1) : 0);
    this.tile.style.backgroundPosition = `${part(place % COLUMNS, columns)}% ${part(Math.floor(place / COLUMNS), rows)}%`;
  }

  /** Say which frame is shown: a number stands for the picture, or says that it does not. */
  _tell() {
    const all = this.times.length;
    const waits = this.seek != null || this.picture == null;
    const other = !waits && this.asked != null && this.asked !== this.picture;
    const k = waits ? this.frame : this.picture;
    const unsure = this.tells || this.strip ? "" : "about ";
    const end = waits ? " …" : ` of ${all}${other ? `, not ${this.asked}` : ""}`;
    this.place.textContent = all ? `${seconds(this.times[k], 3)} · ${unsure}frame ${k}${end}` : "no frames";
    this.place.classList.toggle("other", other);
    this.doubt.textContent = other
      ? `The picture is another frame: frame ${this.asked} was asked for, and this browser shows frame ${k}.`
      : unsure && "This browser does not say which frame it shows: the picture may be a frame beside the number.";
    this.doubt.hidden = this.strip || !all || !this.doubt.textContent;
    if (all) this.onFrame(this.times[k]);
    this._follow();
  }

  _speed() {
    this.video.playbackRate = Number(this.rate.value);
  }

  faster(way) {
    const place = RATES.indexOf(Number(this.rate.value)) - way;
    this.rate.value = RATES[Math.max(0, Math.min(RATES.length - 1, place))];
    this._speed();
  }

  play() {
    if (!this.times.length) return;
    if (this.frame === this.times.length - 1) this.show(0);
    if (!this.strip) return void this.video.play().catch(() => {});
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      if (this.frame === this.times.length - 1 && !this.loop) return this.stop();
      this.show(this.frame + 1);
      this._around();
    }, (1000 * (this.details.duration / this.times.length)) / Number(this.rate.value));
    this._state();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.video.pause();
    this._state();
  }

  toggle() {
    if (this.playing) this.stop();
    else this.play();
  }

  _state() {
    this.playButton.textContent = this.playing ? "❚❚" : "▶";
    this.loopButton.setAttribute("aria-pressed", this.loop ? "true" : "false");
    this._follow();
  }

  /** Play from `a` to `b` (s) again and again; null ends it. */
  repeat(span) {
    this.loop = span;
    this._state();
    if (!span) return this.stop();
    this.show(nearest(this.times, span[0]));
    this.play();
  }
}
