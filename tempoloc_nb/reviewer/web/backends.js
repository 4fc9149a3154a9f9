// Who answers: a server on this machine, a notebook's kernel, or a page that holds everything itself.

/** A server at `base`. */
export function http(base) {
  const get = async (place, options) => {
    const reply = await fetch(`${base}/${place}`, options).catch(() => null);
    return reply ?? Response.json({ error: "tempoloc review has ended: start it again, and reload this page" }, { status: 503 });
  };
  const said = (reply) => reply.json().catch(() => ({ error: `tempoloc review answered with status ${reply.status}, and not in JSON` }));
  let last; // the address of a strip
  return {
    async ask(request) {
      return said(await get("ask", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) }));
    },
    video: async (index, camera = "") => `${base}/video/${index}${camera && `?${encodeURIComponent(camera)}`}`,
    async strip(index) {
      const reply = await get(`strip/${index}`);
      if (!reply.ok) throw new Error((await said(reply)).error);
      if (last) URL.revokeObjectURL(last);
      last = URL.createObjectURL(await reply.blob());
      return last;
    },
  };
}

/** The kernel behind a widget. Videos come through it, too: a kernel may be far away. */
export function kernel(model) {
  const waiting = new Map();
  const urls = new Map(); // the last few videos
  let last = 0;
  model.on("msg:custom", (message, buffers) => {
    waiting.get(message.id)?.({ ...message.answer, buffers });
    waiting.delete(message.id);
  });
  const ask = (request) => new Promise((resolve) => {
    const id = (last += 1);
    waiting.set(id, resolve);
    model.send({ id, request });
  });
  const bytes = async (op, index, camera = "") => {
    const key = `${op}${index}${camera}`;
    if (!urls.has(key)) {
      const answer = await ask({ op, index, camera });
      if (answer.error) throw new Error(answer.error);
      urls.set(key, URL.createObjectURL(new Blob([answer.buffers[0]], { type: answer.type })));
      for (const [old, url] of urls) {
        if (urls.size <= 8) break;
        URL.revokeObjectURL(url);
        urls.delete(old);
      }
    }
    return urls.get(key);
  };
  return { ask, video: (index, camera) => bytes("video", index, camera), strip: (index) => bytes("strip", index) };
}

/** A cell of a table; as in formats/csv, no text is one that a spreadsheet takes for a formula. */
const cell = (value) => {
  const text = /^'*[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** A page without anybody behind it: `data` has the queue, the clips and the places of their videos. */
export function still(data) {
  const answers = { queue: () => data.queue, clip: ({ index }) => data.clips[index] };
  return {
    still: true,
    ask: async (request) => answers[request.op]?.(request) ?? { error: "this page saves nothing" },
    video: async (index) => data.videos[index],
    strip: async () => null,
    /** What was corrected here as a table, which `tempoloc dataset import csv` reads. */
    table(drafts) {
      const rows = [["clip", "label", "boundary", "proposed", "by", "confidence", "why"]];
      data.clips.forEach((clip, index) => {
        const events = drafts.get(index)?.events ?? clip.labels.map((label, i) => ({ label, boundary: clip.boundaries[i], absent: clip.absent?.[i], why: "" }));
        events.forEach((e, i) => {
          const now = e.absent ? "absent" : e.boundary ?? "";
          const sure = clip.model?.events[clip.places[i]]?.confidence ?? "";
          rows.push([clip.clip, e.label, now, clip.boundaries[i] ?? "", clip.by, sure, e.why]);
        });
      });
      return { file: "boundaries.csv", text: rows.map((row) => row.map((v) => cell(String(v))).join(",")).join("\n") + "\n" };
    },
  };
}
