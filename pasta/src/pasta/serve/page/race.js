// The same answer twice, measured: its threads together, then one at a time. One run after the other, so that neither
// takes time from the other, and both after the answer was there once, so that both find the prompt computed.

import { Answer } from "./answer.js";
import { bar } from "./timeline.js";
import { byTime } from "./words.js";

const WAYS = [["Together", false, "together"], ["One thread at a time", true, "single"]];

/** `run(sequential, take)` asks the server. Returns the sentence that says how it went. */
export async function race(list, run) {
  const rows = WAYS.map(([name, , kind]) => new Row(list, name, kind));
  const answers = [];
  for (const [index, [, sequential]] of WAYS.entries()) {
    const answer = new Answer();
    await run(sequential, (chunk) => {
      answer.take(chunk);
      rows[index].seconds = answer.seconds;
      const scale = Math.max(...rows.map((row) => row.seconds));
      for (const row of rows) row.draw(scale);
    });
    answers.push(answer);
  }
  const [together, single] = answers;
  const ratio = single.seconds / Math.max(1e-3, together.seconds);
  const same = together.text === single.text && together.annotated === single.annotated;
  const texts = same
    ? "Both wrote the same answer, tag for tag."
    : "The two texts differ: in another batch this machine rounds numbers another way.";
  return `Measured on this server just now: ${byTime(ratio)} one thread at a time. ${texts}`;
}

class Row {
  constructor(list, name, kind) {
    this.name = name;
    this.kind = kind;
    this.seconds = 0;
    this.label = Object.assign(document.createElement("span"), { className: "label", textContent: name });
    this.track = Object.assign(document.createElement("span"), { className: "track", ariaHidden: "true" });
    const row = Object.assign(document.createElement("li"), { className: "sum" });
    row.append(this.label, this.track);
    list.append(row);
  }

  draw(scale) {
    this.label.textContent = `${this.name}: ${this.seconds.toFixed(1)} s`;
    this.track.replaceChildren(bar(this.kind, 0, scale ? this.seconds / scale : 0));
  }
}
