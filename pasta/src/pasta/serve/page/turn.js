// One question and its answer on the page.

import { Answer } from "./answer.js";
import { Fields } from "./fields.js";
import { race } from "./race.js";
import { Timeline } from "./timeline.js";
import { outcome, progress, trouble, whyNot } from "./words.js";
import { Writing } from "./writing.js";

export class Turn {
  /** `does` is what its buttons call: again, more, fresh, enter, stop, race, link. */
  constructor(question, options, does) {
    this.question = question;
    this.options = options;
    this.does = does;
    this.element = document.getElementById("turn").content.cloneNode(true).firstElementChild;
    this.find(".question").textContent = question;
    for (const button of this.element.querySelectorAll("button[data-does]"))
      button.addEventListener("click", () => button.ariaDisabled === "true" || this.act(button));
    this.find(".key").addEventListener("submit", (event) => {
      event.preventDefault();
      does.enter(this, this.find(".key input").value);
    });
    this.clear();
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  clear() {
    this.answer = new Answer(Boolean(this.options?.schema));
    this.begun = false;
    this.find(".text").replaceChildren();
    this.find(".timeline").replaceChildren();
    this.find(".race").replaceChildren();
    this.writing = null; // until something is written
    this.timeline = new Timeline(this.find(".timeline"), (id) => this.writing?.light(id)?.scrollIntoView({ block: "nearest" }));
    for (const name of [".how", ".raced", ".why", ".trouble", ".key", ".more", ".actions", "[data-does=race]"]) this.find(name).hidden = true;
    this.say("", "");
  }

  say(headline, line) {
    this.find(".headline").textContent = headline;
    this.find(".line").textContent = line ?? "";
    this.find(".line").hidden = !line;
  }

  /** While something of it runs. */
  run(running) {
    this.find(".stop").hidden = !running;
    this.find(".text").ariaBusy = String(running);
  }

  take(chunk) {
    this.answer.take(chunk);
    this.begun ||= Boolean(chunk.pasta);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.answer.finish === null) this.draw();
    });
  }

  draw() {
    if (this.answer.finish === null) this.say(...progress(this.answer, this.begun));
    this.writing ??= new (this.answer.fields ? Fields : Writing)(this.find(".text"));
    this.writing.draw(this.answer);
    this.timeline.draw(this.answer);
    this.find(".how").hidden = this.answer.threads.size === 1;
  }

  /** No more will come. Returns what is to be said aloud. */
  finish(reason) {
    if (this.answer.finish === null) this.answer.end(reason);
    const [headline, line] = outcome(this.answer, this.options);
    this.draw();
    this.say(headline, line);
    const cut = this.answer.finish === "length";
    this.find(".more").hidden = !cut;
    if (cut) this.find(".more span").textContent = `Cut at the limit of ${this.options?.max_tokens ?? "its"} tokens. `;
    this.find(".more button").hidden = !this.options;
    this.find(".actions").hidden = !this.answer.read().source;
    this.find("[data-does=race]").hidden = this.answer.threads.size === 1 || reason === "stopped" || !this.options;
    return [headline, line].filter(Boolean).join(". ");
  }

  explain(tags) {
    if (this.answer.threads.size > 1 || this.answer.finish === "stopped") return;
    this.find(".why").textContent = whyNot(this.answer, this.options, tags);
    this.find(".why").hidden = false;
  }

  /** Returns what is to be said aloud. */
  fail(error) {
    const { words, remedy } = trouble(error);
    if (this.begun) this.finish("stopped");
    this.say(remedy === "key" ? "This server asks for a key" : "No answer", "");
    if (this.begun) this.say("Not the whole answer", "");
    if (remedy === "key") {
      this.find(".key").hidden = false;
      const given = this.find(".key input").value;
      this.find(".key .line").textContent = `${given ? `${words}. ` : ""}Whoever runs the server has one for you.`;
      this.find(".key input").focus();
      return "";
    }
    this.find(".trouble").hidden = false;
    this.find(".trouble span").textContent = words;
    for (const name of ["again", "new"]) this.find(`.trouble [data-does=${name}]`).hidden = name !== remedy;
    return words;
  }

  async race(run) {
    this.find(".raced").hidden = false;
    this.find(".race").replaceChildren();
    this.find(".raced p").textContent = "The same question twice more: first with its threads together, then one at a time …";
    const told = await race(this.find(".race"), run);
    this.find(".raced p").textContent = told;
    return told;
  }

  act(button) {
    this.does[button.dataset.does](this, button);
  }

  toJSON() {
    return [this.question, this.answer];
  }
}
