"""AlpacaEval's questions answered by a server, in the file that the `alpaca_eval` program judges.

    pip install openai
    pasta serve
    python examples/alpaca_eval.py alpaca_eval.json model_outputs.json
    alpaca_eval --model_outputs model_outputs.json        # needs a judge: see its documentation

`alpaca_eval.json` is the list of questions that AlpacaEval publishes (tatsu-lab/alpaca_eval on the hub). `pasta eval`
does all of this and more in one command, with judges that run here.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from openai import AsyncOpenAI


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--plain", action="store_true", help="without tags, in one thread: the model to compare with")
    options = parser.parse_args()
    questions = json.loads(options.questions.read_text("utf-8"))[: options.limit]
    places = asyncio.Semaphore(options.at_once)

    async with AsyncOpenAI(base_url=options.url, api_key=options.api_key, timeout=3600) as client:
        model = (await client.models.list()).data[0].id
        name = f"{model}-plain" if options.plain else model

        async def answer(question: dict[str, str]) -> dict[str, str]:
            async with places:
                done = await client.chat.completions.create(
                    model=model,
                    messages=[{"role": "user", "content": question["instruction"]}],
                    max_tokens=options.max_tokens,
                    extra_body={"pasta": {"plain": options.plain}},
                )
            print(".", end="", file=sys.stderr, flush=True)
            kept = {key: question[key] for key in ("dataset", "instruction") if key in question}
            return {**kept, "output": done.choices[0].message.content or "", "generator": name}

        outputs = await asyncio.gather(*map(answer, questions))
    options.outputs.write_text(json.dumps(outputs, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"\n{len(outputs)} answers of {name} are in {options.outputs}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
