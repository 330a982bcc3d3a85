// One answer on the page: its text, coloured by thread, above a timeline of who wrote when.

const COLOURS = 8;
const ROW = 9;
const SVG = "http://www.w3.org/2000/svg"; // a name, not an address: nothing is fetched

const colour = (thread) => (thread === 0 ? "c0" : `c${1 + ((thread - 1) % (COLOURS - 1))}`);

/** Answers that are drawn together, on one scale of steps. */
export class Race {
  constructor(sections) {
    this.lanes = sections.map((section) => new Lane(section, () => this.schedule()));
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      const steps = Math.max(...this.lanes.map((lane) => lane.step)) + 1;
      for (const lane of this.lanes) lane.draw(steps);
    });
  }
}

class Lane {
  constructor(section, changed) {
    this.changed = changed;
    this.answer = section.querySelector(".answer");
    this.figures = section.querySelector(".figures");
    this.timeline = section.querySelector(".timeline");
    this.clear();
  }

  clear() {
    this.answer.replaceChildren();
    this.timeline.replaceChildren();
    this.timeline.style.height = "0";
    this.figures.textContent = "–";
    this.threads = new Map();
    this.step = 0;
    this.seconds = 0;
    this.usage = null;
    this.open(0, null, "");
  }

  /** A chunk of the stream. */
  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.pasta) {
      this.step = chunk.pasta.step;
      this.seconds = chunk.pasta.seconds;
      for (const event of chunk.pasta.events) this.happen(event);
    }
    this.changed();
  }

  happen(event) {
    const thread = this.threads.get(event.thread);
    if (event.type === "delta") {
      if (thread.spans.at(-1).state === "queued") this.turn(thread, "writing");
      thread.element.append(event.text);
    } else if (event.type === "fork") this.open(event.child, thread.element, event.topic);
    else if (event.type === "suspend") this.turn(thread, "queued");
    else if (event.type === "wait") this.turn(thread, "waiting");
    else if (event.type === "join") this.turn(thread, "writing");
    else if (event.type === "end") {
      this.turn(thread, null);
      thread.element.classList.add("ended");
    }
  }

  open(id, parent, topic) {
    const element = document.createElement("span");
    element.className = `thread ${colour(id)}`;
    if (topic) element.title = topic;
    (parent ?? this.answer).append(element);
    this.threads.set(id, { id, element, topic, spans: [{ state: "writing", from: this.step, to: null }] });
  }

  turn(thread, state) {
    const last = thread.spans.at(-1);
    if (last && last.to === null) last.to = this.step;
    if (state) thread.spans.push({ state, from: this.step, to: null });
  }

  draw(scale) {
    this.timeline.setAttribute("viewBox", `0 0 ${scale} ${this.threads.size * ROW}`);
    this.timeline.setAttribute("preserveAspectRatio", "none");
    this.timeline.style.height = `${this.threads.size * ROW}px`;
    const bars = [];
    for (const [row, thread] of [...this.threads.values()].entries()) {
      for (const span of thread.spans) {
        const bar = document.createElementNS(SVG, "rect");
        bar.setAttribute("class", `${colour(thread.id)} ${span.state}`);
        bar.setAttribute("x", span.from);
        bar.setAttribute("width", Math.max((span.to ?? this.step + 1) - span.from, 0.5));
        bar.setAttribute("y", row * ROW + 1);
        bar.setAttribute("height", ROW - 2);
        if (thread.topic) bar.append(Object.assign(document.createElementNS(SVG, "title"), { textContent: thread.topic }));
        bars.push(bar);
      }
    }
    this.timeline.replaceChildren(...bars);
    this.figures.textContent = this.summary();
  }

  summary() {
    const parts = [`${this.step + 1} steps`, `${this.seconds.toFixed(1)} s`];
    const threads = this.threads.size;
    parts.push(`${threads} ${threads === 1 ? "thread" : "threads"}`);
    if (this.usage) {
      parts.push(`${this.usage.completion_tokens} tokens`, `critical path ${this.usage.critical_path}`);
      parts.push(`speedup ${this.usage.speedup.toFixed(2)}`);
    }
    return parts.join(" · ");
  }
}
