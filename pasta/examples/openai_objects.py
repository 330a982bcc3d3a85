"""The `openai` package against `pasta serve`: an object by its schema, and a tool that is called and answers.

pip install openai
pasta serve
python examples/openai_objects.py [http://127.0.0.1:8000/v1]
"""

import json
import sys
from typing import Annotated, Literal

from openai import OpenAI
from pydantic import BaseModel, Field


class Order(BaseModel):
    customer: Annotated[str, Field(max_length=40)]
    chairs: int
    payment: Literal["card", "cash", "transfer"]


TOOL = {
    "type": "function",
    "function": {
        "name": "ship",
        "description": "Ship goods to a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 40},
                "count": {"type": "integer", "minimum": 1, "maximum": 99},
                "express": {"type": "boolean"},
            },
            "required": ["city", "count", "express"],
        },
    },
}
TEXT = "Maria Gomez from Lisbon ordered 3 wooden chairs. She paid by card, and is in no hurry."

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000/v1"
client = OpenAI(base_url=url, api_key="none")
model = client.models.list().data[0].id
ask = [{"role": "user", "content": TEXT}]

answer = client.chat.completions.parse(model=model, messages=ask, response_format=Order, max_tokens=200)
usage = answer.usage
print(answer.choices[0].message.parsed)
print(f"{usage.completion_tokens} tokens in {usage.model_extra['steps']} steps")

choice = {"type": "function", "function": {"name": "ship"}}
answer = client.chat.completions.create(model=model, messages=ask, tools=[TOOL], tool_choice=choice, max_tokens=200)
(call,) = answer.choices[0].message.tool_calls
print(f"{call.function.name}({json.loads(call.function.arguments)})")

ask += [answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "Shipped, there by Monday."}]
answer = client.chat.completions.create(model=model, messages=ask, tools=[TOOL], tool_choice="none", max_tokens=60)
print(answer.choices[0].message.content)
