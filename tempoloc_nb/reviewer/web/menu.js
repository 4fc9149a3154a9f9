// Tables and other files that go out of the page, and come into it.
import { el } from "./times.js";

export class Menu {
  constructor(app) {
    this.app = app;
    this.body = el("div", { class: "menu" });
    this.root = el("details", { class: "more" }, el("summary", { title: "Export and import", "aria-label": "Export and import" }, "⋯"), this.body);
  }

  /** What can be done with the review that `said` describes. */
  fill(said) {
    const { still } = this.app.backend;
    const item = (text, act) => el("button", { type: "button", onclick: () => { this.root.open = false; act(); } }, text);
    const items = [item("Boundaries as CSV", () => this.export("csv"))];
    if (!still) items.push(item("This clip as WebVTT", () => this.export("vtt")), item("Read CSV or WebVTT…", () => this.import()));
    if (said.annotations) items.push(item("Write LeRobot annotations", () => this.export("annotations")));
    items.push(el("p", {}, still ? "This page saves nothing: download the table." : `Saves go to ${said.output}`));
    this.body.replaceChildren(...items);
  }

  async export(kind) {
    const { app } = this;
    try {
      const said = kind === "csv" && app.backend.still
        ? app.backend.table(app.drafts)
        : await app.ask({ op: "export", kind, index: app.index });
      if (said.note) return app.say(said.note, "good");
      const url = URL.createObjectURL(new Blob([said.text], { type: "text/plain" }));
      el("a", { href: url, download: said.file }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    } catch (error) {
      app.say(error.message, "wrong");
    }
  }

  import() {
    const { app } = this;
    const input = el("input", { type: "file", accept: ".csv,.tsv,.vtt,text/csv,text/vtt" });
    input.addEventListener("change", async () => {
      try {
        const [file] = input.files;
        const kind = file.name.toLowerCase().endsWith(".vtt") ? "vtt" : "csv";
        const said = await app.ask({ op: "import", kind, text: await file.text(), who: app.who.value });
        app.queue.fill((await app.ask({ op: "queue" })).clips, app.queue.sure);
        await app.open(app.index);
        app.say(said.note, "good");
      } catch (error) {
        app.say(error.message, "wrong");
      }
    });
    input.click();
  }
}
