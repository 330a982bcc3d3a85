// Who wrote when: a row for each thread, under its topic, and below them how long the same text takes one after another.

import { path } from "./fields.js";
import { colour } from "./writing.js";

export class Timeline {
  /** `show` is called with a thread's number when somebody asks which part that is, with null when no more. */
  constructor(element, show) {
    this.element = element;
    this.show = show;
    this.rows = new Map();
  }

  draw(answer) {
    if (answer.threads.size === 1) return; // nothing to compare
    const { steps, tokens } = answer.pace;
    const scale = Math.max(tokens, answer.step + 1, steps);
    for (const thread of answer.threads.values()) {
      if (answer.fields && thread.id === 0) continue; // it writes nothing
      const row = this.rows.get(thread.id) ?? this.add(thread, answer.fields);
      const least = answer.fields ? 1 : 0; // a field may take one step
      const spans = thread.spans.map(({ state, from, to }) => [state, from, Math.max(from + least, to ?? answer.step + 1)]);
      row.track.replaceChildren(...spans.map(([state, from, to]) => bar(`${colour(thread)} ${state}`, from / scale, to / scale)));
      const [first, last] = [thread.spans[0]?.from ?? 0, spans.at(-1)?.[2] ?? 0];
      row.told.textContent = thread.live ? ", being written" : `, steps ${first} to ${last}`;
    }
    this.sum("together", `Together: ${steps} steps`, steps / scale);
    this.sum("single", `One token after another: ${tokens} steps`, tokens / scale);
  }

  add(thread, field) {
    const label = document.createElement(thread.id === 0 ? "span" : "button");
    label.className = `label ${colour(thread)}`;
    label.textContent = thread.id === 0 ? "Main text" : (field ? path(thread.topic) : thread.topic) || `Part ${thread.id}`;
    if (thread.id !== 0) {
      label.type = "button";
      label.ariaPressed = "false";
      label.addEventListener("click", () => this.press(label, thread.id));
    }
    const told = Object.assign(document.createElement("span"), { className: "aside" });
    const { row, track } = makeRow(label, told);
    const before = this.rows.get("together")?.row ?? null;
    this.element.insertBefore(row, before);
    const made = { row, track, told };
    this.rows.set(thread.id, made);
    return made;
  }

  press(label, id) {
    const pressed = label.ariaPressed !== "true";
    for (const other of this.element.querySelectorAll("button")) other.ariaPressed = "false";
    label.ariaPressed = String(pressed);
    this.show(pressed ? id : null);
  }

  sum(name, text, part) {
    let found = this.rows.get(name);
    if (!found) {
      const label = Object.assign(document.createElement("span"), { className: "label" });
      found = { label, ...makeRow(label) };
      found.row.className = "sum";
      this.rows.set(name, found);
    }
    if (!found.row.isConnected) this.element.append(found.row);
    found.label.textContent = text;
    found.track.replaceChildren(bar(name, 0, part));
  }
}

function makeRow(...labels) {
  const row = document.createElement("li");
  const track = Object.assign(document.createElement("span"), { className: "track", ariaHidden: "true" });
  row.append(...labels, track);
  return { row, track };
}

/** From one part of the width to another. */
export function bar(name, from, to) {
  const made = document.createElement("span");
  made.className = `bar ${name}`;
  made.style.left = `${100 * from}%`;
  made.style.width = `${100 * Math.max(0, Math.min(1, to) - from)}%`;
  return made;
}
