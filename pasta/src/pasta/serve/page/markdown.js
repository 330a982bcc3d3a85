// Markdown as models write it, read into a tree that says where in the source each text stands.
//
// A node is { tag, kids } and maybe { start, href, from, to }; a text is { from, to }, a slice of the source. Nothing is
// lost: what is not understood stays as it was written. `carets` are the places where more text may still come:
// there an open `**` counts as bold already, and half a mark is not shown.

const FENCE = /^ {0,3}(`{3,}|~{3,}) *[\w+#.-]*\s*$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+|$)/;
const RULE = /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)(?:([-*+•])|(\d{1,9})[.)])(?:( +)|$)/;
const DELIMITERS = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;
const SPECIAL = /[\\`*_~[!]/g;
const ADDRESS = /^(?:https?:\/\/|mailto:)[^\s]+$/i;
const MAX_DEPTH = 12;

/** The blocks of a text. Each has the range of the source that it covers. */
export function parse(source, carets = []) {
  const lines = [];
  for (let from = 0; from <= source.length; ) {
    const end = source.indexOf("\n", from);
    const to = end < 0 ? source.length : end;
    lines.push({ from, to });
    from = to + 1;
  }
  return new Reader(source, carets).blocks(lines, 0);
}

class Reader {
  constructor(source, carets) {
    this.source = source;
    this.ends = carets.map((caret) => caret.at);
    this.places = new Set(carets.filter((caret) => caret.thread?.id !== 0).map((caret) => caret.at));
  }

  blocks(lines, depth) {
    const out = [];
    const text = (line) => this.source.slice(line.from, line.to);
    for (let i = 0; i < lines.length; ) {
      const begun = i, line = text(lines[i]);
      let node = null;
      if (!line.trim()) {
        // A thread that begins on a line of its own needs a place to stand.
        if (this.standsIn(lines[i])) node = { tag: "p", kids: [{ from: lines[i].to, to: lines[i].to }] };
        i += 1;
      } else if (FENCE.test(line)) {
        const fence = line.match(FENCE)[1];
        for (i += 1; i < lines.length && !text(lines[i]).trimStart().startsWith(fence); ) i += 1;
        const inner = lines.slice(begun + 1, i);
        node = { tag: "pre", kids: [{ tag: "code", kids: this.joined(inner.length ? inner : [{ from: lines[begun].to, to: lines[begun].to }], "\n") }] };
        i += 1;
      } else if (HEADING.test(line)) {
        const [mark, hashes] = line.match(HEADING);
        node = { tag: `h${Math.min(6, hashes.length + 3)}`, kids: this.inline(lines[i].from + mark.length, lines[i].to) };
        i += 1;
      } else if (RULE.test(line)) {
        node = { tag: "hr", kids: [] };
        i += 1;
      } else if (QUOTE.test(line) && depth < MAX_DEPTH) {
        const inner = [];
        for (; i < lines.length && QUOTE.test(text(lines[i])); i += 1)
          inner.push({ from: lines[i].from + text(lines[i]).match(QUOTE)[0].length, to: lines[i].to });
        node = { tag: "blockquote", kids: this.blocks(inner, depth + 1) };
      } else if (line.includes("|") && i + 1 < lines.length && text(lines[i + 1]).includes("-") && DELIMITERS.test(text(lines[i + 1]))) {
        const rows = [this.row(lines[i], "th")];
        for (i += 2; i < lines.length && text(lines[i]).includes("|"); i += 1) rows.push(this.row(lines[i], "td"));
        node = { tag: "table", kids: [{ tag: "tbody", kids: rows }] };
      } else if (ITEM.test(line) && depth < MAX_DEPTH) {
        [node, i] = this.list(lines, i, depth);
      } else {
        for (i += 1; i < lines.length && text(lines[i]).trim() && !this.interrupts(text(lines[i])); ) i += 1;
        node = { tag: "p", kids: this.paragraph(lines.slice(begun, i)) };
      }
      if (node) out.push({ ...node, from: lines[begun].from, to: lines[i - 1]?.to ?? lines.at(-1).to });
    }
    return out;
  }

  standsIn({ from, to }) {
    for (const at of this.places) if (from <= at && at <= to) return true;
    return false;
  }

  interrupts(line) {
    return [FENCE, HEADING, RULE, QUOTE, ITEM].some((kind) => kind.test(line));
  }

  /** Items of one kind, from line `i` on; and the line after them. */
  list(lines, i, depth) {
    const text = (line) => this.source.slice(line.from, line.to);
    const [, indent, bullet] = text(lines[i]).match(ITEM);
    const items = [];
    while (i < lines.length) {
      const found = text(lines[i]).match(ITEM);
      if (!found || Boolean(found[2]) !== Boolean(bullet) || found[1].length > indent.length + 1 || RULE.test(text(lines[i]))) break;
      const inner = [{ from: lines[i].from + found[0].length, to: lines[i].to }];
      let blank = false;
      for (i += 1; i < lines.length; i += 1) {
        const line = text(lines[i]), padding = line.match(/^ */)[0].length;
        if (!line.trim()) {
          blank = true;
          inner.push(lines[i]);
        } else if (padding >= indent.length + 2) {
          inner.push({ from: lines[i].from + Math.min(padding, found[0].length), to: lines[i].to });
          blank = false;
        } else if (!blank && !this.interrupts(line)) inner.push(lines[i]);
        else break;
      }
      const kids = this.blocks(inner, depth + 1);
      if (kids[0]?.tag === "p") kids.splice(0, 1, ...kids[0].kids); // tight
      if (!kids.length) kids.push({ from: inner[0].to, to: inner[0].to });
      items.push({ tag: "li", kids, start: found[3] });
    }
    return [{ tag: bullet ? "ul" : "ol", kids: items }, i];
  }

  row({ from, to }, tag) {
    const cells = [];
    const edges = [...this.source.slice(from, to).matchAll(/(?<!\\)\|/g)].map((match) => from + match.index);
    const bounds = [from - 1, ...edges, to];
    for (let i = 1; i < bounds.length; i += 1) {
      const [left, right] = [bounds[i - 1] + 1, bounds[i]];
      const outer = (i === 1 || i === bounds.length - 1) && !this.source.slice(left, right).trim();
      if (!outer || right === to) cells.push({ tag, kids: this.inline(left, right), outer });
    }
    // An edge at the end closes the last cell, and opens none.
    if (cells.length > 1 && cells.at(-1).outer) cells.at(-2).kids.push(...cells.pop().kids);
    return { tag: "tr", kids: cells };
  }

  paragraph(lines) {
    const kids = [];
    for (const line of lines) {
      if (kids.length) kids.push({ tag: "br", kids: [] });
      kids.push(...this.inline(line.from, line.to));
    }
    return kids;
  }

  joined(lines, glue) {
    return lines.flatMap((line, index) => (index ? [{ text: glue }, line] : [line]));
  }

  /** One line. The empty text at its end is where carets after a closing mark stand. */
  inline(from, to) {
    return [...this.spans(from, to), { from: to, to }];
  }

  spans(from, to) {
    const out = [], source = this.source;
    let plain = from;
    const flush = (until) => { if (until > plain) out.push({ from: plain, to: until }); };
    for (let at = from; at < to; ) {
      SPECIAL.lastIndex = at;
      const found = SPECIAL.exec(source);
      if (!found || found.index >= to) break;
      const mark = found.index;
      const [node, next] = this.span(mark, to, plain === mark ? "" : source[mark - 1]);
      if (next > mark) {
        flush(mark);
        if (node) out.push(node);
        plain = at = next;
      } else at = mark + (source[mark] === "`" ? source.slice(mark).match(/^`+/)[0].length : 1);
    }
    flush(to);
    return out;
  }

  /** What a mark at `at` begins, and where that ends; `at` itself where it begins nothing. */
  span(at, to, before) {
    const source = this.source, rest = source.slice(at, to);
    const grows = this.ends.find((end) => end >= at && end <= to) ?? -1;
    if (rest[0] === "\\") return /[\\`*_~[\](){}#+\-.!|>]/.test(rest[1] ?? "") ? [{ from: at + 1, to: at + 2 }, at + 2] : [null, at];
    if (rest[0] === "`") {
      const ticks = rest.match(/^`+/)[0];
      const end = source.indexOf(ticks, at + ticks.length);
      const open = grows > at + ticks.length && (end < 0 || end > grows);
      if (!open && (end < 0 || end >= to)) return [null, at];
      const until = open ? grows : end;
      return [{ tag: "code", kids: [{ from: at + ticks.length, to: until }] }, open ? until : until + ticks.length];
    }
    if (rest[0] === "[" || rest[0] === "!") {
      const link = rest.match(/^!?\[([^\[\]]*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?: "[^"]*")?\)/);
      if (!link || !ADDRESS.test(link[2])) return [null, at];
      const begun = at + link[0].indexOf("[") + 1;
      return [{ tag: "a", href: link[2], kids: this.spans(begun, begun + link[1].length) }, at + link[0].length];
    }
    const mark = rest.match(/^(\*{1,3}|_{1,3}|~~)/)?.[0];
    if (!mark) return [null, at];
    const inner = at + mark.length;
    if (grows === inner && mark[0] !== "_") return [null, inner]; // half a mark, or the next word is about to come
    if (/\s/.test(source[inner] ?? " ") || (mark[0] === "_" && /\w/.test(before))) return [null, at];
    const end = this.closing(mark, inner, to);
    const open = grows > inner && (end < 0 || end > grows) && mark[0] !== "_";
    if (end < 0 && !open) return [null, at];
    let until = open ? grows : end;
    const next = open ? until : until + mark.length;
    if (open) while (until > inner && source[until - 1] === "*") until -= 1; // half of the closing mark
    const kids = this.spans(inner, until);
    if (open) kids.push({ from: until, to: until, carets: grows });
    if (mark === "~~") return [{ tag: "del", kids }, next];
    if (mark.length === 1) return [{ tag: "em", kids }, next];
    if (mark.length === 2) return [{ tag: "strong", kids }, next];
    return [{ tag: "strong", kids: [{ tag: "em", kids }] }, next];
  }

  closing(mark, from, to) {
    const source = this.source;
    for (let at = source.indexOf(mark, from); at >= 0 && at + mark.length <= to; at = source.indexOf(mark, at + 1)) {
      const run = source.slice(at).match(mark[0] === "~" ? /^~+/ : mark[0] === "*" ? /^\*+/ : /^_+/)[0].length;
      const word = mark[0] === "_" && /\w/.test(source[at + mark.length] ?? "");
      if (run >= mark.length && (run - mark.length) % 2 === 0 && at > from && !/\s/.test(source[at - 1]) && !word) return at + run - mark.length;
      at += run - 1;
    }
    return -1;
  }
}
