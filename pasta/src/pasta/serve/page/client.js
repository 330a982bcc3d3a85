// One streamed answer of the server, event by event.

/** What the server, or the way to it, refused. */
export class Refusal extends Error {
  constructor(status, message, code = null, wait = null) {
    super(message);
    Object.assign(this, { status, code, wait }); // status 0: it was not reached; null: it broke off
  }
}

const headersFor = (key) => ({ "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) });

/** Asks, and calls `take` with each chunk. Resolves when the answer is complete. */
export async function ask(body, key, signal, take) {
  const sent = { method: "POST", headers: headersFor(key), body: JSON.stringify(body), signal };
  const response = await reach("v1/chat/completions", sent);
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Refusal(503, chunk.error.message, chunk.error.code);
      take(chunk);
    }
  } catch (error) {
    if (error instanceof Refusal || signal.aborted) throw error;
    throw new Refusal(null, String(error.message));
  }
  throw new Refusal(null, "the stream ended early");
}

/** Whether the model marks parts at all; null where the server does not say. */
export async function knowsTags(key) {
  const response = await reach("v1/models", { headers: headersFor(key) });
  return (await response.json()).data?.[0]?.pasta?.tags ?? null;
}

async function reach(path, sent) {
  let response;
  try {
    response = await fetch(path, sent);
  } catch (error) {
    if (sent.signal?.aborted) throw error;
    throw new Refusal(0, String(error.message));
  }
  if (response.ok) return response;
  const told = (await response.json().catch(() => null))?.error;
  const wait = Number(response.headers.get("Retry-After")) || null;
  throw new Refusal(response.status, told?.message ?? `the server answered ${response.status}`, told?.code, wait);
}

/** The data of each server-sent event, each of which the server puts on one line; comments keep the connection alive. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
  }
}
