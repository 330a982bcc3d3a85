// A conversation in a link: after the #, which browsers send to nobody. Compressed, and bounded both ways.

const PREFIX = "#c=";
const MOST = 30_000; // characters of a link
const MOST_UNFOLDED = 1_000_000; // bytes

/** The part of a link that holds this; null where it would be too long. */
export async function fold(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const folded = await collect(new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw")), MOST);
  if (!folded) return null;
  const text = btoa(Array.from(folded, (byte) => String.fromCharCode(byte)).join(""));
  const hash = PREFIX + text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return hash.length > MOST ? null : hash;
}

/** What a link holds; null where it holds nothing. A broken one is an error. */
export async function unfold(hash) {
  if (!hash.startsWith(PREFIX)) return null;
  if (hash.length > MOST) throw new Error("the link is too long");
  const text = atob(hash.slice(PREFIX.length).replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const plain = await collect(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")), MOST_UNFOLDED);
  if (!plain) throw new Error("the link holds too much");
  return JSON.parse(new TextDecoder().decode(plain));
}

/** The bytes of a stream; null where there are more than `most`. */
async function collect(stream, most) {
  const parts = [];
  let size = 0;
  for (const reader = stream.getReader(); ; ) {
    const { value, done } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    parts.push(value);
    if ((size += value.length) > most) {
      await reader.cancel();
      return null;
    }
  }
}
