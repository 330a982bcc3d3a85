// An object on the page: a row for each of its fields, which fill in at the same time.

import { colour } from "./writing.js";

/** A JSON pointer as people read it. */
export const path = (pointer) =>
  pointer.split("/").slice(1).map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~")).join(" › ");

export class Fields {
  constructor(element) {
    this.element = element;
    this.list = document.createElement("dl");
    this.list.className = "fields";
    this.rows = new Map();
    element.append(this.list);
  }

  draw(answer) {
    const writes = (thread) => thread.id !== 0 || thread.pieces.some((piece) => typeof piece === "string");
    for (const thread of answer.threads.values()) if (writes(thread)) this.row(thread);
    if (answer.finish !== null && !this.whole) this.end(answer);
  }

  row(thread) {
    const row = this.rows.get(thread.id) ?? this.add(thread);
    const text = thread.pieces.filter((piece) => typeof piece === "string").join("");
    if (row.textContent !== text) row.textContent = text;
    row.className = `part ${colour(thread)} ${thread.live ? "live" : ""}`;
    const opens = !thread.live && text.trim() === "{"; // it only said that an object is there, whose fields have rows
    row.parentElement.hidden = row.parentElement.previousElementSibling.hidden = opens;
  }

  add(thread) {
    const name = Object.assign(document.createElement("dt"), { textContent: path(thread.topic) || "Answer" });
    const value = document.createElement("dd");
    const text = document.createElement("span");
    text.dataset.thread = thread.id;
    value.append(text);
    this.list.append(name, value);
    this.rows.set(thread.id, text);
    return text;
  }

  /** All of it, as a program gets it; also what the schema says by itself, which no thread writes. */
  end(answer) {
    this.whole = document.createElement("details");
    const summary = Object.assign(document.createElement("summary"), { textContent: "As JSON" });
    const text = Object.assign(document.createElement("pre"), { tabIndex: 0, textContent: pretty(answer.text) });
    this.whole.append(summary, text);
    this.element.append(this.whole);
  }

  /** Shows which part is whose; null: nobody's. */
  light(id) {
    for (const [thread, row] of this.rows) row.classList.toggle("lit", thread === id);
    return this.rows.get(id);
  }
}

/** Cut by a limit, it is no JSON, and stays as it is. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
