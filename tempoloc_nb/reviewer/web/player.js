// The video: a frame at a time by the file's own frame times, slow motion, and a loop around a boundary.
import { el, nearest, seconds } from "./times.js";

const RATES = [1, 0.5, 0.25, 0.1];
const TILES = 60;
const COLUMNS = 10;

export class Player {
  constructor(onFrame) {
    this.onFrame = onFrame;
    this.frame = 0;
    this.loop = null;
    this.times = [];
    this.strip = false;
    this.video = el("video", { muted: true, playsinline: true, preload: "auto", disablepictureinpicture: true });
    this.video.muted = true;
    this.tile = el("div", { class: "tile", hidden: true });
    this.message = el("p", { class: "message", hidden: true });
    this.stage = el("div", { class: "stage" }, this.video, this.tile, this.message);
    const button = (text, title, onclick) => el("button", { type: "button", title, "aria-label": title, onclick }, text);
    this.playButton = button("▶", "Play or pause (space)", () => this.toggle());
    this.place = el("output", { class: "place" });
    this.rate = el("select", { title: "Speed ([ and ])", "aria-label": "Speed", onchange: () => this._speed() },
      RATES.map((r) => el("option", { value: r }, r === 1 ? "1×" : `${r}×`)));
    this.loopButton = button("⟲", "Loop around the boundary (L)", () => this.onLoop?.());
    this.root = el("section", { class: "player", "aria-label": "Video" }, this.stage,
      el("div", { class: "controls" }, button("−10", "Ten frames back (shift ←)", () => this.step(-10)),
        button("◀", "One frame back (←)", () => this.step(-1)), this.playButton,
        button("▶|", "One frame on (→)", () => this.step(1)), button("+10", "Ten frames on (shift →)", () => this.step(10)),
        this.place, el("span", { class: "space" }), this.loopButton, this.rate));
    this._listen();
  }

  _listen() {
    this.video.addEventListener("seeked", () => this._next());
    this.video.addEventListener("loadeddata", () => {
      this.message.hidden = true;
      this.offset = this.video.currentTime; // some files' first frame is not at 0, and players begin with it
      this._next();
    });
    this.video.addEventListener("error", () => this.video.getAttribute("src") && this._fallBack());
    for (const name of ["play", "pause", "ended"]) this.video.addEventListener(name, () => this._state());
    const each = (_, about) => {
      this._shown(about.mediaTime);
      this.video.requestVideoFrameCallback(each);
    };
    if (this.video.requestVideoFrameCallback) this.video.requestVideoFrameCallback(each);
    else this.video.addEventListener("timeupdate", () => this._shown(this.video.currentTime));
  }

  /** Show another clip: `media` gives the addresses of its video and of its strip. */
  async load(details, media) {
    this.stop();
    this.details = details;
    this.times = details.times;
    this.media = media;
    this.loop = null;
    this.offset = 0;
    this.known = false;
    this.frame = 0;
    this.wanted = this.aimed = null;
    this.strip = false;
    this.tile.hidden = true;
    this.video.hidden = false;
    this.video.removeAttribute("src");
    this.video.load();
    this._say(details.problem ? `No video: ${details.problem}. Times can be typed and saved.` : "Loading…");
    this._tell();
    if (details.problem) return;
    try {
      const url = await media.video();
      if (this.details !== details) return;
      if (!url) return this._fallBack();
      this.video.src = url;
      this._speed();
    } catch (error) {
      if (this.details === details) this._say(`No video: ${error.message}`);
    }
  }

  _say(text) {
    this.message.textContent = text;
    this.message.hidden = !text;
  }

  /** Frames as pictures, where the browser does not play the video. */
  async _fallBack() {
    const details = this.details;
    this._say("This browser does not play the video. Making a strip of its frames…");
    try {
      const url = await this.media.strip();
      if (this.details !== details || !url) return this._say("This browser does not play the video.");
      this.strip = true;
      this.tiles = Math.min(TILES, this.times.length);
      this.video.hidden = true;
      this.tile.hidden = false;
      this.tile.style.backgroundImage = `url("${url}")`;
      const [width, height] = details.size;
      this.tile.style.aspectRatio = `${width} / ${height}`;
      const columns = Math.min(COLUMNS, this.tiles);
      this.tile.style.backgroundSize = `${100 * columns}% ${100 * Math.ceil(this.tiles / COLUMNS)}%`;
      this._say(`This browser does not play the video: ${this.tiles} of its ${this.times.length} frames.`);
      this.message.classList.add("small");
      this.show(this.frame);
    } catch (error) {
      this._say(`No picture: ${error.message}`);
    }
  }

  get time() {
    return this.times[this.frame] ?? 0;
  }

  get playing() {
    return this.strip ? this.timer != null : !this.video.paused && !this.video.ended;
  }

  /** Show frame `k`; of many that are asked for at once the last is shown. */
  show(k) {
    if (!this.times.length) return;
    this.frame = Math.max(0, Math.min(this.times.length - 1, k));
    this.wanted = this.frame;
    if (this.strip) this._tile();
    else this._next();
    this._tell();
  }

  at(time) {
    this.show(nearest(this.times, time));
  }

  step(count) {
    this.stop();
    this.show((this.wanted ?? this.frame) + count);
  }

  /** Seek to the frame that is wanted, once the seek before has ended. */
  _next() {
    if (this.wanted == null || this.video.seeking || this.video.readyState < 2) return;
    if (this.aimed === this.wanted) {
      this.wanted = this.aimed = null;
      return;
    }
    const k = (this.aimed = this.wanted);
    const after = this.times[k + 1] ?? this.times[k] + 0.02;
    this.video.currentTime = this.offset + (this.times[k] + after) / 2; // within the frame: rounding finds no other
  }

  /** The browser shows the frame of this PTS. */
  _shown(mediaTime) {
    if (!this.times.length || this.strip) return;
    if (this.wanted != null) return;
    if (!this.known && !this.playing && this.frame === 0) this.offset = mediaTime; // the first frame, before any seek
    this.known = true;
    this.frame = nearest(this.times, mediaTime - this.offset);
    this._tell();
    this._around();
  }

  _around() {
    if (this.loop && this.playing && (this.time >= this.loop[1] || this.frame === this.times.length - 1)) {
      this.show(nearest(this.times, this.loop[0]));
    }
  }

  _tile() {
    const place = this.times.length < 2 ? 0 : Math.round((this.frame / (this.times.length - 1)) * (this.tiles - 1));
    const columns = Math.min(COLUMNS, this.tiles);
    const rows = Math.ceil(this.tiles / COLUMNS);
    const part = (k, n) => (n > 1 ? (100 * k) / (n - 1) : 0);
    this.tile.style.backgroundPosition = `${part(place % COLUMNS, columns)}% ${part(Math.floor(place / COLUMNS), rows)}%`;
  }

  _tell() {
    const all = this.times.length;
    this.place.textContent = all ? `${seconds(this.time, 3)} · frame ${this.frame} of ${all}` : "no frames";
    this.onFrame(this.time, this.frame);
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
