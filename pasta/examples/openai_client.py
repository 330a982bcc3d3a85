"""The `openai` package against `pasta serve`: an answer as it comes, a second question, and what each cost.

pip install openai
pasta serve
python examples/openai_client.py [http://127.0.0.1:8000/v1]
"""

import sys

from openai import OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000/v1"
client = OpenAI(base_url=url, api_key="none")
model = client.models.list().data[0].id
messages = []

for question in ("Name three fruits and describe each.", "Which of them keeps longest?"):
    messages.append({"role": "user", "content": question})
    print(f"> {question}")
    answer, usage = "", None
    for chunk in client.chat.completions.create(
        model=model,
        messages=messages,
        max_tokens=120,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"pasta": {"events": True}},
    ):
        for event in (chunk.model_extra or {}).get("pasta", {}).get("events", []):
            if event["type"] == "fork":
                print(f"[thread {event['child']}: {event['topic']}]", file=sys.stderr)
        if chunk.choices:
            text = chunk.choices[0].delta.content or ""
            answer += text
            print(text, end="", flush=True)
        usage = chunk.usage or usage
    messages.append({"role": "assistant", "content": answer})
    extra = usage.model_extra
    print(
        f"\n({usage.completion_tokens} tokens, critical path {extra['critical_path']}, {extra['threads']} threads, "
        f"{usage.prompt_tokens_details.cached_tokens} of {usage.prompt_tokens} prompt tokens were there already)\n"
    )
