"""The report's page: the figures, and responses coloured by thread over their timelines, two models side by side.

One file that needs nothing from elsewhere: styles, script and data are in it.
"""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from typing import Any

from pasta.eval.folder import RunFolder
from pasta.eval.timing import drawn
from pasta.tasks.question import Question


def make_page(
    folder: RunFolder,
    summary: dict[str, Any],
    rows: list[dict[str, Any]],
    judge: str | None,
    drawings: dict[str, str],
    shown: int,
) -> str:
    template = resources.files("pasta.eval").joinpath("page.html").read_text("utf-8")
    data = json.dumps(responses(folder, summary, judge, shown), ensure_ascii=False, separators=(",", ":"))
    parts = {
        "theme": resources.files("pasta.serve").joinpath("page", "theme.css").read_text("utf-8"),
        "about": about(summary, judge),
        "table": html_table(rows),
        "drawings": "".join(f"<figure>{drawing}</figure>" for drawing in drawings.values()),
        "data": data.replace("<", "\\u003c"),  # so that no text can end the script
    }
    for name, text in parts.items():
        template = template.replace(f"<!--{name}-->", text, 1)
    return template


def responses(folder: RunFolder, summary: dict[str, Any], judge: str | None, shown: int) -> dict[str, Any]:
    """What the page shows of each response: texts by thread, runs of steps, and figures."""
    questions = summary["prompts"]
    answers = {model: folder.answers(questions, model) for model in summary["models"]}
    judged = {model: folder.judged(judge, questions, model) if judge else {} for model in answers}
    prompts = {id: row["prompt"] for rows in answers.values() for id, row in rows.items()}
    chosen = drawn([Question(id, prompt) for id, prompt in prompts.items()], shown)
    return {
        "against": summary["against"],
        "models": list(answers),
        "prompts": [
            {
                "id": question.id,
                "prompt": question.prompt,
                "answers": {
                    model: {
                        "parts": rows[question.id]["parts"],
                        "threads": [
                            [line["topic"], line["runs"], line["tokens"], line["promised"]]
                            for line in rows[question.id]["threads"]
                        ],
                        "tokens": rows[question.id]["content_tokens"],
                        "path": rows[question.id]["critical_path"],
                        "finish": rows[question.id]["finish_reason"],
                        "shared": rows[question.id]["shared"],
                        "win": judged[model].get(question.id, {}).get("win"),
                    }
                    for model, rows in answers.items()
                    if question.id in rows
                },
            }
            for question in chosen
        ],
    }


def about(summary: dict[str, Any], judge: str | None) -> str:
    machines = ", ".join(summary["machines"])
    spec = summary["judges"].get(judge, {}).get("judge") if judge else None
    parts = [
        f"Prompts: {summary['prompts']}",
        f"reference: {summary['against']}",
        f"judge: {spec or 'none'}",
        f"machine: {machines}",
        *(f"{key.replace('_', ' ')}: {value}" for key, value in summary["settings"].items() if value is not None),
    ]
    return escape("; ".join(parts) + ".")


def html_table(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(row.get(column, '–')))}</td>" for column in columns) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
