if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    const base = new URL(url, document.baseURI);
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.appendChild(frame);
    const inside = frame.contentWindow;
    inside.postMessage = data => {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    };
    const load = source => new Promise((done, failed) => {
      const script = inside.document.createElement("script");
      script.src = new URL(source, base);
      script.onload = done;
      script.onerror = failed;
      inside.document.head.appendChild(script);
    });
    inside.importScripts = (...sources) => sources.reduce((before, s) => before.then(() => load(s)), Promise.resolve());
    this.inside = inside;
    this.ready = load(base);
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
};
