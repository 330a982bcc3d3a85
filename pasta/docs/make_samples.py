"""Makes samples.md: what the default model answers to questions of our own, greedily, with its threads marked.

python pasta/docs/make_samples.py
"""

from pathlib import Path

from pasta import generate_all, load

#: Question, and what we see in the answer.
QUESTIONS = {
    "Give me five tips for better sleep.": (
        "Good: five threads, distinct topics, every block stands by itself. A topic of four words glues two of them."
    ),
    "Explain the differences between solar, wind and hydro power.": (
        "Bad: two blocks, about solar power and about something that nobody asked for; hydro power is left out."
    ),
    "How do I prepare for a job interview?": (
        "Good structure; the first two blocks say the same, later topics are odd, and the budget cuts it."
    ),
    "What are the advantages and disadvantages of working from home?": (
        "Good: eight topics that differ, at three times the speed; but advantages only."
    ),
    "What should I pack for a week of hiking in the mountains?": (
        "Mixed: `Batteries` and `Battery Power` begin with different tokens, so both pass; the budget cuts it."
    ),
    "Why do leaves change colour in autumn?": (
        "Good: an introduction, then three aspects at once. The biology is wrong."
    ),
    "What are the main parts of a bicycle, and what does each do?": (
        "Good structure and bad facts: most bicycles have no fuel system. It does not know when to end."
    ),
    "Describe the benefits of learning a second language.": ("Good: four aspects, each of which stands by itself."),
    "Name the top cities in Italy and what is special about each.": (
        "Good; two of the five are regions, and Venice is not the capital."
    ),
    "What is the capital of Japan?": ("Rightly sequential."),
    "How can a small shop attract more customers?": (
        "Mixed: five blocks that begin alike, since none sees the others; and what does Barcelona do here?"
    ),
    "Tell me a story about a lighthouse keeper.": ("Rightly sequential: a story is one thread."),
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
