"""Makes samples.md: what the default model answers to questions of our own, greedily, with its threads marked.

python pasta/docs/make_samples.py
"""

from pathlib import Path

from pasta import generate_all, load

#: Question, and what we see in the answer.
QUESTIONS = {
    "Give me five tips for better sleep.": (
        "Good: five threads, distinct topics, every block stands by itself. Seven hours of exercise a day are many."
    ),
    "Explain the differences between solar, wind and hydro power.": (
        "Good form: a paragraph for each, then three differences at once. Hydro power is left out of two of them."
    ),
    "How do I prepare for a job interview?": (
        "Good structure; the third and the last block say nearly the same, since neither sees the other."
    ),
    "What are the advantages and disadvantages of working from home?": (
        "Good: five topics that differ, at more than twice the speed; but advantages only."
    ),
    "What should I pack for a week of hiking in the mountains?": (
        "Mixed: topics that differ in their words and not in what they mean; four of five are bags."
    ),
    "Why do leaves change colour in autumn?": ("Rightly sequential. The biology is wrong."),
    "What are the main parts of a bicycle, and what does each do?": (
        "Too short: it names the parts, and does not say what each does."
    ),
    "Describe the benefits of learning a second language.": (
        "Good: five aspects, each of which stands by itself; culture comes twice."
    ),
    "Name the top cities in Italy and what is special about each.": (
        "Good form, and bad facts: the Uffizi are in Florence, and St Mark's is in Venice."
    ),
    "What is the capital of Japan?": ("Rightly sequential."),
    "How can a small shop attract more customers?": ("Good: five topics that differ, and blocks that are about them."),
    "Tell me a story about a lighthouse keeper.": ("Rightly sequential: a story is one thread. The budget cuts it."),
}


def main() -> None:
    model = load(device="cpu")
    results = generate_all(model, list(QUESTIONS), max_tokens=360)
    parts = []
    for (question, remark), result in zip(QUESTIONS.items(), results, strict=True):
        figures = (
            f"{len(result.threads)} thread{'s' * (len(result.threads) > 1)}, {result.tokens_total} tokens, "
            f"critical path {result.critical_path}, parallelism {result.parallelism:.2f}, "
            f"ended by `{result.finish_reason}`"
        )
        parts.append(f"## {question}\n\n{remark}\n\n*{figures}*\n\n```\n{result.annotated.strip()}\n```\n")
    page = Path(__file__).with_name("samples.md")
    head = (
        "# Samples\n\nAnswers of the default model (`smollm2-135m-pasta`) to questions of our own: greedy, float32, "
        "at most 360 tokens, none left out.\nMade by `python pasta/docs/make_samples.py`.\n\n"
    )
    page.write_text(head + "\n".join(parts), "utf-8")


if __name__ == "__main__":
    main()
