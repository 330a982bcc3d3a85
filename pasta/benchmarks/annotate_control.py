"""Lists that look alike: in half of them each item needs the one before it. Does the measure tell them apart?

    python benchmarks/annotate_control.py results/annotate-control.json [--model M]

The texts are our own.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pasta.data.example import Example
from pasta.data.probes import Hiding, Probe, Scorer
from pasta.data.units import cut
from pasta.models import bundled, load_model

INDEPENDENT = {
    "What should I pack for a week by the sea?": (
        "Swimwear and two towels, so that one of them can dry on the line.",
        "A light rain jacket, because the wind often brings clouds in the afternoon.",
        "A good book and a pack of cards for the evenings indoors.",
    ),
    "Name three animals of the forest.": (
        "The red fox hunts mice at night and sleeps in a den under the roots.",
        "The woodpecker hammers holes into dead trunks to find beetles and to raise its young.",
        "The wild boar digs up the ground with its snout in search of acorns.",
    ),
    "What makes an office pleasant to work in?": (
        "Large windows let in daylight and save on lamps during most of the year.",
        "Plants clean the air a little and calm the eyes between two meetings.",
        "Quiet rooms give people a place to telephone without disturbing their neighbours.",
    ),
    "Give me three tips for saving money.": (
        "Cook at home on weekdays and take the rest to work in a box.",
        "Compare the prices of insurance companies once a year and switch if it pays.",
        "Sell clothes and gadgets that nobody in the house has used for a long time.",
    ),
    "Which crafts were common in a medieval town?": (
        "Blacksmiths forged tools, nails and horseshoes from iron in small open workshops.",
        "Bakers rose long before dawn to have fresh loaves ready for the market.",
        "Weavers turned wool into cloth on wooden looms that filled half a room.",
    ),
}
DEPENDENT = {
    "What happened to the Miller family last summer?": (
        "Grandfather Otto found a rusty key in the attic and showed it to little Clara.",
        "Clara tried the rusty key on the old chest, and it turned with a crack.",
        "In the chest lay a map, which Otto recognised as his own from when he was a boy.",
    ),
    "Tom has 12 apples, gives away 5 and buys 9. How many has he now?": (
        "Tom begins with 12 apples and gives away 5, so that he has 7 left.",
        "To the 7 apples that were left he adds the 9 that he buys, which makes 16.",
        "The result is 16 apples; to check, take 9 from 16, which gives 7 again.",
    ),
    "Tell me a chain of events.": (
        "A storm broke the dam above the village of Arnsdorf on the third of May.",
        "The water from the dam flooded Arnsdorf and carried away the wooden bridge.",
        "Without the wooden bridge, the people of Arnsdorf had to row to the market.",
    ),
    "How does a bill become law in Freedonia?": (
        "A citizen writes a blue letter to the Council of Nine, naming one wish.",
        "The Council of Nine stamps the blue letter and sends it to the Keeper of Seals.",
        "The Keeper of Seals reads the stamped blue letter aloud, and the wish is law.",
    ),
    "Describe the plot of a short play.": (
        "Baroness Irina accuses her gardener Paul of stealing the emerald brooch.",
        "Paul proves that the emerald brooch was in the nest of a magpie all along.",
        "Irina thanks Paul, and the magpie gets a golden cage beside the emerald brooch.",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default=bundled.NAME)
    options = parser.parse_args()
    loaded = load_model(options.model)
    vocabulary = loaded.vocabulary
    scorer = Scorer(loaded.model)
    found = {"model": loaded.name, "nats_per_token": {}}
    for name, lists in (("independent", INDEPENDENT), ("dependent", DEPENDENT)):
        answers = []
        for prompt, items in lists.items():
            text = "\n".join(f"{number}. {item}" for number, item in enumerate(items, start=1))
            example = Example(0, ({"role": "user", "content": prompt},), f"Here you are:\n\n{text}")
            answers.append(cut(example, vocabulary, max_units=24, min_tokens=8, max_prompt=128))
        asked = [(answer, [Probe(1, 2, 2), Probe(1, 3, 3)]) for answer in answers]
        losses = scorer.score(asked, Hiding.omit)
        found["nats_per_token"][name] = [
            round(
                (losses[number, probe, probe.first] - losses[number, None, probe.first])
                / answer.units[probe.first].length,
                3,
            )
            for number, (answer, probes) in enumerate(asked)
            for probe in probes
        ]
    rises = found["nats_per_token"]
    wins = sum((a > b) + (a == b) / 2 for a in rises["dependent"] for b in rises["independent"])
    found["mean"] = {name: round(sum(values) / len(values), 3) for name, values in rises.items()}
    found["separation_auc"] = round(wins / (len(rises["dependent"]) * len(rises["independent"])), 3)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
