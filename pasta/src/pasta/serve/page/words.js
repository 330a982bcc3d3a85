// What the page says: how an answer came about, and what went wrong, with what to do about it.

const BUSY = new Set(["queue_full", "busy", null]); // with everybody's requests

const times = (value) => (value < 10 ? value.toFixed(1) : String(Math.round(value)));

/** How a ratio compares two ways, in words: `less` and `more` of something, or the `same`. */
function compared(ratio, less, same, more) {
  if (ratio >= 1.05) return `${times(ratio)} times ${less} than`;
  if (ratio > 0.95) return `${same} as`;
  return `${times(1 / ratio)} times ${more} than`;
}

/** Of two times by the clock. */
export const byTime = (ratio) => compared(ratio, "faster", "as fast", "slower");

/** Of two counts of steps, which say little of the time: a step of many threads takes longer. */
const bySteps = (ratio) => compared(ratio, "fewer steps", "As many steps", "more steps");

/** The headline while it is written, and the line below it. */
export function progress(answer, begun) {
  if (!begun) return ["Waiting for the model …", "It answers as soon as it is this question's turn."];
  const headline = answer.places > 1 ? `Writing in ${answer.places} places at once` : "Writing";
  return [headline, `${answer.tokens} tokens in ${answer.step + 1} steps so far.`];
}

/** The headline, and the line below it. */
export function outcome(answer, options) {
  const { steps, tokens } = answer.pace;
  if (answer.finish === "stopped" && !answer.usage) return ["Stopped", "What was written until then is below."];
  if (answer.threads.size === 1) return ["One token after another", null];
  const ratio = tokens / Math.max(1, steps);
  const most = answer.mostPlaces;
  const places = most > 1 ? `up to ${most} places at once` : "one place at a time";
  const held = most <= 1 && options?.max_threads === 1 ? ": the option 'Threads at once' is 1" : "";
  return [`${bySteps(ratio)} one token after another`, `${tokens} tokens in ${steps} steps, in ${places}${held}.`];
}

/** Why nothing was written apart. `tags`: whether the model knows how. */
export function whyNot(answer, options, tags) {
  if (tags === false)
    return "This model was not trained to mark parts of its answers, so it writes them one token after another. " +
      "The default model was: start the server without --model, or train this one with pasta train sft.";
  if (answer.usage?.plain_when_full)
    return "So many share this server at the moment that parts written at once would make everybody wait longer. Ask again later.";
  if (answer.finish === "length")
    return `The answer was cut at ${answer.pace.tokens} tokens, before the model had marked any part. Raise 'Tokens at most' under Options.`;
  const held = options?.parallelism < 0 ? " The option 'Parallelism' is below 0, which holds it back." : "";
  return "The model found no parts here that do not depend on each other. Lists, comparisons and steps usually have some." + held;
}

/** What went wrong and what to do: the words, and the remedy that a button offers. */
export function trouble(error) {
  const again = (words) => ({ words, remedy: "again" });
  const told = error.message.replace(/[.\s]+$/, "");
  const wait = error.wait ? `Try again in ${error.wait} ${error.wait === 1 ? "second" : "seconds"}.` : "Try again in a moment.";
  if (error.code === "context_length_exceeded")
    return { words: "This conversation is too long for the model. Ask something shorter, or begin a new one.", remedy: "new" };
  switch (error.status) {
    case 0: return again("The server cannot be reached. See whether pasta serve still runs, then try again.");
    case null: return again("The connection was lost before the answer was complete. What had come is kept; try again for the rest.");
    case 401: return { words: told, remedy: "key" };
    case 429: return again(`${BUSY.has(error.code) ? "The server has too much to do." : `This is more than your key allows: ${told}.`} ${wait}`);
    case 503: return again(`The server cannot answer at the moment: ${told}. ${wait}`);
  }
  return again(`The server refused: ${told}.`);
}
