// The page: a conversation, and what its reader can do.

import { Answer } from "./answer.js";
import { ask, knowsTags } from "./client.js";
import { fold, unfold } from "./link.js";
import { Turn } from "./turn.js";
import { trouble } from "./words.js";

const element = (id) => document.getElementById(id);
const DIALS = { parallelism: "parallelism", threads: "max_threads", tokens: "max_tokens" };
const MOST_TURNS = 64;
const ORDER = {
  text:
    "Order 4711: Maria Gomez from Lisbon bought 3 wooden chairs for her office on Friday. " +
    "She paid 420 euros by card, and asks for delivery in the morning.",
  schema: {
    type: "object",
    properties: {
      customer: { type: "string" },
      city: { type: "string" },
      order_number: { type: "integer" },
      chairs: { type: "integer" },
      price: { type: "integer" },
      payment: { enum: ["card", "cash", "transfer"] },
      delivery: { enum: ["morning", "afternoon", "evening"] },
    },
    required: ["customer", "city", "order_number", "chairs", "price", "payment", "delivery"],
  },
};

let turns = [];
let running = null; // what ends the request that is on its way
let key = ""; // until the page is closed
let shown = ""; // the link in the address bar, where it is ours

// -- asking ----------------------------------------------------------------------------------------------

const settings = () => ({
  ...Object.fromEntries(Object.entries(DIALS).map(([id, name]) => [name, Number(element(id).value)])),
  schema: schema(),
});

/** The schema that answers must follow; null: none. What is no JSON is told where it stands, and is an error. */
function schema() {
  const wrong = element("schema-wrong");
  wrong.hidden = true;
  if (!element("schema").value.trim()) return null;
  try {
    const read = JSON.parse(element("schema").value);
    if (read === null || typeof read !== "object" || Array.isArray(read)) throw new Error("a schema is an object");
    return read;
  } catch (error) {
    wrong.textContent = `This is no JSON schema: ${error.message}`;
    wrong.hidden = false;
    element("options").open = element("structured").open = true;
    element("schema").focus();
    throw error;
  }
}

/** The body of a request for a turn, after those before it that have an answer. A race has its threads whatever they cost. */
function request(turn, sequential, race = false) {
  const before = turns.slice(0, turns.indexOf(turn)).filter((one) => one.answer.text);
  const messages = before.flatMap((one) => [
    { role: "user", content: one.question },
    { role: "assistant", content: one.answer.text },
  ]);
  const { max_tokens, parallelism, max_threads, schema } = turn.options;
  return {
    messages: [...messages, { role: "user", content: turn.question }],
    max_tokens,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    ...(schema && { response_format: { type: "json_schema", json_schema: { name: "answer", schema } } }),
    pasta: { events: true, annotated: true, sequential, parallelism, max_threads, ...(race && { plain: false }) },
  };
}

/** Does something with the server, one thing at a time; Escape and the stop button end it. */
async function busy(turn, work) {
  if (running) return;
  running = new AbortController();
  const signal = running.signal;
  turn.run(true);
  for (const button of document.querySelectorAll("[data-asks]")) button.ariaDisabled = "true";
  try {
    say(await work(signal));
  } catch (error) {
    if (!signal.aborted && error.status === undefined) console.error(error);
    say(signal.aborted ? turn.finish("stopped") : turn.fail(error));
  } finally {
    running = null;
    turn.run(false);
    for (const button of document.querySelectorAll("[data-asks]")) button.ariaDisabled = "false";
  }
}

const answer = (turn) =>
  busy(turn, async (signal) => {
    turn.clear();
    turn.draw();
    say("Answering");
    await ask(request(turn, false), key, signal, (chunk) => turn.take(chunk));
    const told = turn.finish("stop");
    if (turn.answer.threads.size === 1 && !turn.answer.fields) turn.explain(await knowsTags(key).catch(() => null));
    return told;
  });

function begin(question) {
  if (running || !question.trim()) return;
  let options;
  try {
    options = settings();
  } catch {
    return; // told where it stands
  }
  const turn = add(question, options);
  element("prompt").value = "";
  if (matchMedia("(pointer: coarse)").matches) element("prompt").blur(); // the keyboard would cover the answer
  turn.element.scrollIntoView({ behavior: calm() ? "instant" : "smooth" });
  answer(turn);
}

function add(question, options) {
  const turn = new Turn(question, options, does);
  turns.push(turn);
  element("turns").append(turn.element);
  show();
  return turn;
}

const does = {
  again: (turn) => answer(turn),
  more(turn) {
    turn.options = { ...turn.options, max_tokens: 2 * turn.options.max_tokens };
    answer(turn);
  },
  new: () => fresh(),
  enter(turn, given) {
    key = given.trim();
    element("prompt").focus({ preventScroll: true });
    answer(turn);
  },
  stop: () => running?.abort(),
  race: (turn) =>
    busy(turn, async (signal) => {
      try {
        return await turn.race((sequential, take) => ask(request(turn, sequential, true), key, signal, take));
      } catch (error) {
        const told = signal.aborted ? "The race was stopped." : `The race broke off. ${trouble(error).words}`;
        turn.find(".raced p").textContent = told;
        return told;
      }
    }),
  copy: async (turn, button) => confirm(button, await copied(turn.answer.read().source), "Copied", "Not copied: select the text instead"),
  async link(turn, button) {
    const hash = await fold(turns.slice(0, turns.indexOf(turn) + 1));
    if (!hash) return confirm(button, false, "", "Too long for a link: copy the text instead");
    address(hash);
    confirm(button, await copied(location.href), "Link copied", "The link is in the address bar");
  },
};

// -- a conversation ------------------------------------------------------------------------------------------

function fresh() {
  clear();
  address("");
  element("prompt").focus();
}

function clear() {
  running?.abort();
  turns = [];
  element("turns").replaceChildren();
  show();
}

/** Puts a link into the address bar, where a reload and a bookmark find it; none: takes it out. */
function address(hash) {
  shown = hash;
  history.replaceState(null, "", hash || location.pathname + location.search);
}

function show() {
  const some = turns.length > 0;
  element("examples").hidden = some;
  element("fresh").hidden = !some;
  element("ask-label").textContent = some ? "Ask a follow-up" : "Ask something";
}

/** Opens what the link holds, if it holds anything. */
async function open() {
  const hash = location.hash;
  if (hash === shown) return;
  try {
    const told = await unfold(hash);
    if (!told) return;
    if (!Array.isArray(told) || told.length > MOST_TURNS) throw new Error("not a conversation");
    const read = told.map(([question, answer]) => [String(question), Answer.fromJSON(answer)]);
    clear();
    address(hash);
    for (const [question, answer] of read) {
      const turn = add(question, null);
      turn.answer = answer;
      turn.finish(answer.finish);
      turn.find(".from-link").hidden = false;
    }
    say("A conversation was opened from a link.");
  } catch {
    element("broken").hidden = false;
    say(element("broken").textContent);
  }
}

// -- small things ----------------------------------------------------------------------------------------------

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** For those who listen: rarely, and never the text itself. */
function say(text) {
  element("said").textContent = text ?? "";
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text); // only where the connection is safe
    return true;
  } catch {
    return false;
  }
}

function confirm(button, good, yes, no) {
  button.dataset.name ??= button.textContent;
  button.textContent = good ? yes : no;
  say(button.textContent);
  setTimeout(() => (button.textContent = button.dataset.name), 3000);
}

for (const id of Object.keys(DIALS)) {
  const tell = () => (element(`${id}-value`).textContent = element(id).value);
  element(id).addEventListener("input", tell);
  tell(); // a browser may have kept another value over a reload
}
element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  begin(element("prompt").value);
});
element("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  element("composer").requestSubmit();
});
element("examples").addEventListener("click", (event) => {
  if (event.target.closest("button")) begin(event.target.closest("button").textContent);
});
element("order").addEventListener("click", () => {
  element("prompt").value = ORDER.text;
  element("schema").value = JSON.stringify(ORDER.schema, null, 2);
  element("schema-wrong").hidden = true;
  element("prompt").focus();
});
element("fresh").addEventListener("click", fresh);
document.addEventListener("keydown", (event) => event.key === "Escape" && running?.abort());
addEventListener("hashchange", open);
show();
open();
