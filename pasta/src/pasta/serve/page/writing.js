// The answer's text on the page: Markdown made of elements, each thread's part marked while it grows.
//
// Text of a model only ever becomes a text node or an attribute that is shown as text. Blocks that did not change since
// the last time are left as they are, so that they can be read and selected meanwhile.

import { parse } from "./markdown.js";

const CHARACTERS = 4; // of a token, about: what was promised is kept free, so that the text below stays in its place
const COLOURS = 7;

export const colour = (thread) => (thread.id === 0 ? "c0" : `c${1 + ((thread.id - 1) % COLOURS)}`);

export class Writing {
  constructor(element) {
    this.element = element;
    this.keys = [];
  }

  draw(answer) {
    const { source, runs, carets } = answer.read();
    const blocks = parse(source, carets);
    const keys = blocks.map((block) => keyOf(block, source, runs, carets));
    const old = [...this.element.children];
    blocks.forEach((block, index) => {
      if (keys[index] === this.keys[index]) return;
      const made = new Block(source, runs, carets.filter(({ at }) => block.from <= at && at <= block.to)).make(block);
      if (old[index]) old[index].replaceWith(made);
      else this.element.append(made);
    });
    old.slice(blocks.length).forEach((element) => element.remove());
    this.keys = keys;
  }

  /** Shows which part is whose; null: nobody's. */
  light(id) {
    for (const part of this.element.querySelectorAll(".part")) part.classList.toggle("lit", part.dataset.thread === String(id));
    return this.element.querySelector(".lit");
  }
}

/** Two blocks with the same key look the same. */
function keyOf(block, source, runs, carets) {
  const state = (thread) => `${thread.id}${thread.live ? "+" : "-"}`;
  const parts = runs.filter((run) => run.from < block.to && run.to > block.from);
  const ends = carets.filter(({ at }) => block.from <= at && at <= block.to);
  return JSON.stringify([
    block.tag,
    source.slice(block.from, block.to),
    parts.map(({ thread, from }) => [state(thread), Math.max(0, from - block.from)]),
    ends.map(({ thread, at }) => [state(thread), thread.spans.at(-1).state, at - block.from, rest(thread).length]),
  ]);
}

/** What is still to come of a promise, as blind text of that length. */
function rest(thread) {
  const written = thread.pieces.reduce((sum, piece) => sum + (typeof piece === "string" ? piece.length : 0), 0);
  return "mmmm ".repeat(Math.max(0, Math.round((thread.promised * CHARACTERS - written) / 8)));
}

class Block {
  constructor(source, runs, carets) {
    Object.assign(this, { source, runs, carets: [...carets] });
  }

  make(node) {
    if (!node.tag) return this.text(node);
    let element = document.createElement(node.tag);
    if (node.start !== undefined) element.value = Number(node.start);
    if (node.href) Object.assign(element, { href: node.href, rel: "noopener noreferrer nofollow", target: "_blank" });
    element.append(...node.kids.map((kid) => this.make(kid)));
    if (node.tag === "pre") element.tabIndex = 0;
    if (node.tag === "table") {
      const frame = document.createElement("div");
      Object.assign(frame, { className: "wide", tabIndex: 0 });
      frame.append(element);
      element = frame;
    }
    return element;
  }

  /** A slice of the source, cut where another thread wrote on, with the carets that stand in it. */
  text({ from, to, text, carets }) {
    const out = document.createDocumentFragment();
    if (text !== undefined) {
      out.append(text);
      return out;
    }
    const until = carets ?? to;
    const flush = (at) => {
      for (; from < at; ) {
        const run = this.runs.find((one) => one.from <= from && from < one.to);
        const end = Math.min(at, run?.to ?? at);
        out.append(run && run.thread.id !== 0 ? part(run.thread, this.source.slice(from, end)) : this.source.slice(from, end));
        from = end;
      }
    };
    while (this.carets.length && this.carets[0].at <= until) {
      const { at, thread } = this.carets.shift();
      flush(Math.min(at, to));
      out.append(caret(thread));
    }
    flush(to);
    return out;
  }
}

function part(thread, text) {
  const span = document.createElement("span");
  span.className = `part ${colour(thread)} ${thread.live ? "live" : ""}`;
  span.dataset.thread = thread.id;
  span.textContent = text;
  return span;
}

/** Where a thread is at it. What it shows is decoration, and no part of the text. */
function caret(thread) {
  const span = document.createElement("span");
  span.className = `caret ${colour(thread)} ${thread.spans.at(-1).state}`;
  span.ariaHidden = "true";
  if (thread.id !== 0 && !thread.pieces.length) span.dataset.topic = ` ${thread.topic} `;
  span.dataset.rest = ` ${rest(thread)}`;
  return span;
}
