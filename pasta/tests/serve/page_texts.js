// Draws answers of random threads and random bits of Markdown and HTML; evaluated in the page by test_page.py.
// Gives the elements that came of them, and the first answers whose letters do not all stand there once.
async () => {
  const { Writing } = await import("./page/writing.js");
  const { Answer } = await import("./page/answer.js");
  const pieces = [
    "<img src=x onerror=alert(1)>", "<script>", "**", "*", "_", "`", "```", "\n", "\n\n", "- ", "1. ", "2) ", "# ", "> ",
    "|", "---", "| - | - |", "[a](https://b.c)", "[a](javascript:alert(1))", "![i](http://x.y/z.png)", "~~", "\\", "   ",
    "word", " two words ", "é—你", "&amp;", "<!--", "]]>",
  ];
  let seed = 1;
  const draw = (n) => (seed = (seed * 48271) % 2147483647) % n;
  // The addresses of links are not shown.
  const letters = (text) => text.replace(/\]\(http[^)]*\)/g, "").replace(/[^\p{L}]/gu, "");
  const tags = new Set(), wrong = [];
  for (let round = 0; round < 3000; round += 1) {
    const answer = new Answer();
    for (let i = draw(30); i >= 0; i -= 1) {
      const thread = draw(answer.threads.size);
      if (draw(5)) answer.happen({ type: "delta", thread, text: pieces[draw(pieces.length)] });
      else answer.happen({ type: "fork", thread, child: answer.threads.size, topic: "t", tokens: 10 });
    }
    answer.text = answer.read().source;
    const element = document.createElement("div");
    const writing = new Writing(element);
    for (const finish of [null, "stop"]) {
      if (finish) answer.end(finish);
      writing.draw(answer);
      const anew = document.createElement("div");
      new Writing(anew).draw(answer);
      if (!element.isEqualNode(anew)) wrong.push(["drawn anew it differs", element.outerHTML, anew.outerHTML]);
      for (const one of element.querySelectorAll("*")) tags.add(one.localName);
      const links = [...element.querySelectorAll("[href]")].map((one) => one.href);
      if (links.some((href) => !/^https?:/.test(href))) wrong.push(links);
      // The language of a fence is not shown.
      const fenced = /```|~~~/.test(answer.text);
      if (!fenced && letters(answer.text) !== letters(element.textContent)) wrong.push([answer.text, element.textContent]);
    }
  }
  return { tags: [...tags], wrong: wrong.slice(0, 3) };
};
