// The page: one question, answered twice at the same time, in parallel and sequentially.

import { ask } from "./client.js";
import { Race } from "./lane.js";

const element = (id) => document.getElementById(id);
const [parallel, sequential] = new Race([element("parallel"), element("sequential")]).lanes;
const lanes = { parallel, sequential };
let running = null;

for (const id of ["parallelism", "threads", "tokens"]) {
  const show = () => (element(`${id}-value`).textContent = element(id).value);
  element(id).addEventListener("input", show);
  show(); // a browser may have kept another value over a reload
}

function request(sequential) {
  return {
    messages: [{ role: "user", content: element("prompt").value }],
    max_tokens: Number(element("tokens").value),
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    pasta: {
      events: true,
      sequential,
      parallelism: Number(element("parallelism").value),
      max_threads: Number(element("threads").value),
    },
  };
}

async function race(event) {
  event.preventDefault();
  if (running) return;
  running = new AbortController();
  element("run").disabled = true;
  element("stop").disabled = false;
  element("news").textContent = "Answering …";
  const key = element("key").value;
  const begun = performance.now();
  const seconds = {};
  for (const lane of Object.values(lanes)) lane.clear();
  const one = async (name) => {
    await ask(request(name === "sequential"), key, running.signal, (chunk) => lanes[name].take(chunk));
    seconds[name] = (performance.now() - begun) / 1000;
  };
  try {
    await Promise.all(Object.keys(lanes).map(one));
    const [fast, slow] = [seconds.parallel, seconds.sequential];
    element("news").textContent =
      `Done: in parallel after ${fast.toFixed(1)} s, one token after another after ${slow.toFixed(1)} s.`;
  } catch (error) {
    element("news").textContent = running.signal.aborted ? "Stopped." : `Error: ${error.message}`;
    running.abort();
  } finally {
    running = null;
    element("run").disabled = false;
    element("stop").disabled = true;
  }
}

element("form").addEventListener("submit", race);
element("stop").addEventListener("click", () => running?.abort());
element("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element("form").requestSubmit();
});
