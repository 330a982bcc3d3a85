"""Makes samples.md: what the default model answers to questions of our own, greedily, with its threads marked.

python pasta/docs/make_samples.py
"""

from pathlib import Path

from pasta import generate_all, load

#: Question, and what we see in the answer.
QUESTIONS = {
    "Give me five tips for better sleep.": "Good: five threads, distinct topics, every block stands by itself.",
    "Explain the differences between solar, wind and hydro power.": (
        "Good structure; the facts are those of a model of 135 million parameters."
    ),
    "How do I prepare for a job interview?": (
        "Good: eight topics that differ. The budget cuts it, and a planter is not what it meant."
    ),
    "What are the advantages and disadvantages of working from home?": (
        "A missed chance: paragraphs that could be written apart, and no promise."
    ),
    "What should I pack for a week of hiking in the mountains?": (
        "Mixed: with the obvious words taken, later topics grow odd (`Bark-friendly gear`, `Bite into it`)."
    ),
    "Why do leaves change colour in autumn?": (
        "Rightly sequential: each sentence builds on the one before. The physics is wrong."
    ),
    "What are the main parts of a bicycle, and what does each do?": ("Rightly sequential: too short to pay."),
    "Describe the benefits of learning a second language.": (
        "Weak: two blocks, and the second says what the first says; `culture` and `cultural` are different tokens."
    ),
    "Name the top cities in Italy and what is special about each.": (
        "Good structure, with a conclusion after a sync; not all of these are cities, and one is in Spain."
    ),
    "What is the capital of Japan?": ("Rightly sequential."),
    "How can a small shop attract more customers?": (
        "Good: eight topics that differ; the budget cuts the conclusion after the sync."
    ),
    "Tell me a story about a lighthouse keeper.": ("Rightly sequential: a story is one thread."),
}


def main() -> None:
    model = load(device="cpu")
    results = generate_all(model, list(QUESTIONS), max_new_tokens=360)
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
