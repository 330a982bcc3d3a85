"""Seven worked examples for the language model that annotates. All of them are our own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Worked:
    """A question, an answer, and the right label of each of its lines."""

    prompt: str
    answer: str
    labels: tuple[str, ...]
    why: str


WORKED = (
    Worked(
        "What should I look at when I buy a used bicycle?",
        "Check four things before you pay:\n\n"
        "1. Frame: look for cracks at the welds and for dents, because a bent frame cannot be repaired at home.\n"
        "2. Chain: measure how far it has stretched; a worn chain eats the sprockets.\n"
        "3. Wheels: spin them and watch the gap at the brakes to see whether they run true.\n"
        "4. Brakes: pull the levers hard, and make sure that the pads do not touch the rims when released.\n\n"
        "If two of these are bad, walk away.",
        ("main", "frame", "chain", "wheels", "brakes", "wait"),
        "Each item stands alone. The last line speaks of all four, so it waits.",
    ),
    Worked(
        "How do I make a simple vinaigrette?",
        "1. Put one spoon of mustard and two spoons of vinegar into a jar.\n"
        "2. Add a pinch of salt to it and stir until it has dissolved.\n"
        "3. Pour in six spoons of oil, close the jar and shake it hard.\n"
        "4. Taste the result, and add vinegar if it is too mild.",
        ("main", "main", "main", "main"),
        "A numbered list, but every step works on what the step before it left: nothing is independent.",
    ),
    Worked(
        "Compare trains and buses for travelling between cities.",
        "Both get you there, but they suit different travellers. "
        "Trains are faster over long distances, and you can walk about, read at a table and reach the centre of town. "
        "Buses are cheaper, stop in places that have no railway, and can be booked on the day. "
        "So take the train when time matters, and the bus when money does.",
        ("main", "trains", "buses", "wait"),
        "Two sentences of plain prose describe one thing each. The last one draws on both.",
    ),
    Worked(
        "Who was Ada Lovelace?",
        "Ada Lovelace was an English mathematician of the nineteenth century. "
        "She translated an article about Babbage's Analytical Engine and added notes of her own. "
        "One of them describes how the machine could compute Bernoulli numbers. "
        "That description is often called the first computer program.",
        ("main", "main", "main", "main"),
        "Every sentence picks up a word of the one before: she, one of them, that description.",
    ),
    Worked(
        "Write a product page for a camping lantern.",
        "Title: Glowworm 300 Camping Lantern\n\n"
        "Description: A light for tent and table that runs forty hours on a charge and folds to the size of a cup.\n\n"
        "Care: Wipe it with a damp cloth, keep the charging port dry, and store it half charged over the winter.\n\n"
        "Shipping: We send it within two working days; returns are free for thirty days after delivery.",
        ("main", "description", "care", "shipping"),
        "The sections do not need each other. The title is too short for a block. Nothing follows: no wait.",
    ),
    Worked(
        "What is 18% of 250, and what are two uses of percentages?",
        "18% of 250 is 0.18 times 250, which is 45. "
        "Shops use percentages to announce discounts, so that prices of any size can be compared. "
        "Banks use them to state interest, which grows with the sum that was lent.",
        ("main", "shops", "banks"),
        "The calculation comes first and is short. The two uses are independent, and nothing follows them.",
    ),
    Worked(
        "Why do leaves change colour in autumn?",
        "In autumn a tree prepares for the cold. "
        "Shorter days make it stop producing chlorophyll, the green pigment. "
        "As the green fades, yellow and orange carotenoids that were there all summer become visible.\n\n"
        "Reds have another cause: some trees make anthocyanins from sugar that is trapped in the leaf, above all when "
        "days are sunny and nights are cool.\n\n"
        "Then a layer of cork cuts the leaf off, and the wind does the rest.",
        ("main", "green fades", "green fades", "red pigments", "wait"),
        "Line 3 needs line 2, so they are one block. The reds are another matter. The end comes after both.",
    ),
)
