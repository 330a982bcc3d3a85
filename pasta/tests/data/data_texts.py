"""Texts for the tests of annotators; all of them our own."""

LIST = (
    "Here is what a small garden needs:\n\n"
    "1. **Light**: put the beds where the sun reaches them for at least six hours on a summer day.\n"
    "2. **Water**: a barrel under the roof saves many trips with the can when July stays dry.\n"
    "3. **Soil**: dig in two buckets of compost for each bed before the first seeds go into the ground.\n\n"
    "With these in place, even beginners harvest something."
)
STEPS = (
    "1. Heat the milk until small bubbles rise along the rim of the pot and the surface trembles.\n"
    "2. Then stir the cocoa into it, a spoon at a time, so that no lumps are left at the bottom.\n"
    "3. Finally pour everything into warm cups and put a little cream on top of each of them."
)
CODE = (
    "Two ways:\n\n1. Use a loop, as in the following lines of the program:\n```python\nfor i in range(3):\n"
    "    print(i)\n```\n2. Use a comprehension, which says the same in a single line of the program."
)
PARAGRAPHS = (
    "Glass and paper are collected apart in most towns.\n\n"
    "Bottles are sorted by colour, crushed and melted in furnaces that run day and night, because heating a cold "
    "oven would cost far more energy than keeping it warm.\n\n"
    "Old newspapers are soaked in large vats, stirred into a grey pulp, cleaned of ink with soap and air, and "
    "finally rolled out into fresh sheets that dry on hot drums.\n\n"
    "In conclusion, both come back into the shops within weeks."
)
STORY_PROMPT = "Write a short story about a fox."


def count_words(text: str) -> int:
    """A token for each word and each run of white space with a newline: enough to test lengths."""
    return len(text.split()) + text.count("\n")
