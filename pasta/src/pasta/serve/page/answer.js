// An answer as it grows: its threads, what each wrote and when. Nothing here touches the page.

const STATES = ["writing", "waiting", "queued"];
const MOST_THREADS = 1024;

export class Answer {
  /** `fields`: whether it is an object, whose threads are fields. */
  constructor(fields = false) {
    this.fields = fields;
    this.threads = new Map();
    this.text = ""; // in reading order, as far as it is certain
    this.tokens = 0; // of text, so far
    this.step = 0;
    this.seconds = 0; // on the server, from its first step's end to its last's
    this.begun = null;
    this.finish = null; // "stop", "length", or "stopped" by the reader
    this.usage = null;
    this.annotated = null;
    this.open(0, null, "", 0);
  }

  /** A chunk of the stream. */
  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    for (const choice of chunk.choices ?? []) {
      this.text += choice.delta?.content ?? "";
      if (choice.finish_reason) this.end(choice.finish_reason);
      if (choice.pasta) this.annotated = choice.pasta.annotated;
    }
    if (chunk.pasta) {
      this.step = chunk.pasta.step;
      this.begun ??= chunk.pasta.seconds;
      this.seconds = chunk.pasta.seconds - this.begun;
      for (const event of chunk.pasta.events) this.happen(event);
    }
  }

  happen(event) {
    const thread = this.threads.get(event.thread);
    switch (event.type) {
      case "delta":
        if (thread.spans.at(-1)?.state === "queued") this.turn(thread, "writing");
        this.write(thread, event.text);
        this.tokens += event.tokens ?? 1;
        break;
      case "fork":
        thread.pieces.push(event.child);
        this.open(event.child, event.thread, event.topic, event.tokens);
        break;
      case "suspend": this.turn(thread, "queued"); break;
      case "wait": this.turn(thread, "waiting"); break;
      case "join": this.turn(thread, "writing"); break;
      case "end":
        thread.live = false;
        this.turn(thread, null);
    }
  }

  open(id, parent, topic, promised) {
    const spans = [{ state: "writing", from: this.step, to: null }];
    this.threads.set(id, { id, parent, topic, promised, pieces: [], spans, live: true });
  }

  write(thread, text) {
    if (typeof thread.pieces.at(-1) === "string") thread.pieces[thread.pieces.length - 1] += text;
    else thread.pieces.push(text);
  }

  turn(thread, state) {
    const last = thread.spans.at(-1);
    if (last && last.to === null) last.to = this.step;
    if (state) thread.spans.push({ state, from: this.step, to: null });
  }

  /** No more will come. */
  end(finish) {
    this.finish = finish;
    for (const thread of this.threads.values()) {
      thread.live = false;
      this.turn(thread, null);
    }
  }

  /** How many threads write at this moment. */
  get places() {
    return [...this.threads.values()].filter((thread) => thread.live && thread.spans.at(-1).state === "writing").length;
  }

  /** The most that wrote in one step. */
  get mostPlaces() {
    const turns = [];
    for (const { spans } of this.threads.values())
      for (const { state, from, to } of spans)
        if (state === "writing") turns.push([from, 1], [to ?? this.step + 1, -1]);
    turns.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let [now, most] = [0, 0];
    for (const [, change] of turns) most = Math.max(most, (now += change));
    return most;
  }

  /** The steps that it took, and those that one token after another takes for the same text. */
  get pace() {
    const usage = this.usage;
    const steps = usage ? Math.max(usage.critical_path, usage.steps - 1) : this.step + 1;
    return { steps, tokens: usage?.content_tokens ?? this.tokens };
  }

  /** In reading order: the whole text, who wrote which part of it, and where threads are still at it. */
  read() {
    const runs = [], carets = [];
    let source = "";
    const walk = (thread) => {
      for (const piece of thread.pieces) {
        if (typeof piece !== "string") walk(this.threads.get(piece));
        else if (piece) {
          runs.push({ thread, from: source.length, to: source.length + piece.length });
          source += piece;
        }
      }
      if (thread.live) carets.push({ thread, at: source.length });
    };
    walk(this.threads.get(0));
    if (this.finish === null) return { source, runs, carets };
    // A limit cuts: threads may have written more than belongs to the answer.
    if (!source.startsWith(this.text))
      return { source: this.text, runs: [{ thread: this.threads.get(0), from: 0, to: this.text.length }], carets };
    const kept = this.finish === "stopped" ? source.length : this.text.length;
    const cut = runs.filter((run) => run.from < kept).map((run) => ({ ...run, to: Math.min(run.to, kept) }));
    return { source: source.slice(0, kept), runs: cut, carets };
  }

  toJSON() {
    const threads = [...this.threads.values()].map(({ parent, topic, pieces, spans }) => [
      parent, topic, pieces, spans.flatMap(({ state, from, to }) => [STATES.indexOf(state), from, to ?? this.step]),
    ]);
    const { steps, tokens } = this.pace;
    return [threads, this.text, this.finish, steps, tokens, this.step, Number(this.fields)];
  }

  /** From a link, which anybody may have written: what is not an answer is refused. */
  static fromJSON([threads, text, finish, steps, tokens, step, fields]) {
    const check = (good) => { if (!good) throw new Error("not an answer"); };
    const number = (value) => check(Number.isSafeInteger(value) && value >= 0);
    const answer = new Answer(fields === 1);
    check(typeof text === "string" && ["stop", "length", "stopped"].includes(finish));
    [steps, tokens, step].forEach(number);
    check(Array.isArray(threads) && threads.length > 0 && threads.length <= MOST_THREADS);
    answer.threads = new Map(threads.map(([parent, topic, pieces, flat], id) => {
      check(typeof topic === "string" && Array.isArray(pieces) && Array.isArray(flat) && flat.length % 3 === 0);
      check(id === 0 ? parent === null : Number.isSafeInteger(parent) && parent >= 0 && parent < id);
      flat.forEach(number);
      const spans = [];
      for (let i = 0; i < flat.length; i += 3) {
        check(flat[i] < STATES.length && flat[i + 1] <= flat[i + 2]);
        spans.push({ state: STATES[flat[i]], from: flat[i + 1], to: flat[i + 2] });
      }
      return [id, { id, parent, topic, promised: 0, pieces, spans, live: false }];
    }));
    const seen = new Set();
    for (const { id, pieces } of answer.threads.values())
      for (const piece of pieces) {
        if (typeof piece === "string") continue;
        check(answer.threads.get(piece)?.parent === id && !seen.has(piece));
        seen.add(piece);
      }
    const usage = { critical_path: steps, steps: steps + 1, content_tokens: tokens, threads: threads.length };
    return Object.assign(answer, { text, finish, step, usage, tokens });
  }
}
