"""The README's example runs as it stands, and its pictures, documents and figures exist."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from pasta import SamplingParams, __version__
from pasta.eval.report import interval, percent, points

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(
        ROOT / "pasta" / name
        for name in ("README.md", "recipes/README.md", "src/pasta/models/default_adapter/README.md")
    ),
    *sorted((ROOT / "pasta" / "docs").rglob("*.md")),
]


def test_the_example_runs(default_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(examples) == 2
    names: dict[str, object] = {}
    for code in examples:
        assert len([line for line in code.splitlines() if line.strip()]) <= 10
        exec(compile(code, "README.md", "exec", dont_inherit=True), names)
    out = capsys.readouterr().out
    tokens, steps, threads = map(int, re.search(r"(\d+) tokens in (\d+) steps by (\d+) threads", out).groups())  # type: ignore[union-attr]
    assert threads > 3 and steps < tokens, "the default model decodes in parallel"
    assert len(out.rsplit("threads\n", 1)[1]) > 50, "the stream gave its text"
    assert "name='Maria Gomez'" in out and "chairs=3" in out, "the object is right"


def test_the_examples_of_the_python_page_run(default_folder: Path) -> None:
    """One after another, as a reader would type them."""
    page = run_examples("python.md")
    rows = set(re.findall(r"`(\w+)`", page[page.index("| option |") : page.index("```python\nparams")]))
    assert set(SamplingParams.__dataclass_fields__) <= rows, "the table lists every option"


def test_the_examples_of_the_page_about_objects_run(default_folder: Path) -> None:
    run_examples("structured.md")


def run_examples(name: str) -> str:
    page = (ROOT / "pasta" / "docs" / name).read_text("utf-8")
    names: dict[str, object] = {"__name__": "examples"}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, name, "exec", dont_inherit=True), names)
    return page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, place in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text("utf-8")):
        found = page.parent / target if target else page
        assert found.exists(), f"{page.name} links to {target}"
        if place:
            assert place in anchors(found), f"{page.name} links to {target}#{place}"


def test_no_saved_figures_lie_about_unread() -> None:
    pasta = ROOT / "pasta"
    made = [*(pasta / "docs").glob("*.py"), *(pasta / "docs").glob("*.toml")]
    told = "".join(path.read_text("utf-8") for path in (*PAGES, *made))
    for path in (pasta / "benchmarks" / "results").iterdir():
        name = path.name.partition(".")[0]
        shown = name.replace("seeds-", "eval-", 1)  # those of several seeds stand on the page of the first
        assert re.search(rf"{re.escape(shown)}(?![\w-])", told), f"no page names {path.name}: show it, or delete it"


def anchors(page: Path) -> set[str]:
    """A page's headings as GitHub names them: of words that come again, the later ones have a number."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(next(each for each in (name, *(f"{name}-{n}" for n in range(1, 99))) if each not in found))
    return found


def test_a_release_names_its_home_and_links_to_it(tmp_path: Path) -> None:
    """What the release workflow does to a checkout before it builds."""
    for name in ("pasta/README.md", "pasta/pyproject.toml", "pasta/src/pasta/_version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    spec = spec_from_file_location("for_the_index", ROOT / ".github" / "scripts" / "for_the_index.py")
    assert spec is not None and spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    home = "https://github.com/someone/something"
    with pytest.raises(SystemExit, match="has version"):
        script.main(tmp_path, home, "v0.0.1")
    script.main(tmp_path, home, f"v{__version__}")
    page = (tmp_path / "pasta" / "README.md").read_text("utf-8")
    targets = re.findall(r"\]\(([^)]+)", page)
    assert len(targets) > 4 and all(target.startswith("https://") for target in targets)
    assert f"{home}/blob/v{__version__}/pasta/docs/language.md" in targets
    project = tomllib.loads((tmp_path / "pasta" / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"]["Homepage"] == home and f"v{__version__}" in project["urls"]["Changelog"]


def test_figures_are_those_of_their_reports() -> None:
    """The README's tables, row by row, and the figures of its sentences, against the JSON that they name."""
    text = (ROOT / "README.md").read_text("utf-8")
    readme = text + " ".join(text.split())  # sentences run over lines
    told = [*of_the_engine(), *of_the_adapter(), *of_the_default()]
    assert [each for each in told if each not in readme] == []
    named = set(re.findall(r"pasta/benchmarks/results/([\w-]+\.json)", text))
    assert named == {
        "table-h200-9.json", "vllm-h200-3.json", "vllm-h200.json", "cpu-xeon.json",
        "eval-qwen15-chains.json", "eval-default-items.json",
    }  # fmt: skip


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "pasta" / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))
    return found


def of_the_engine() -> Iterator[str]:
    now, before = (report(f"table-h200-{run}")["rows"] for run in (9, 8))
    vllm, prompt = report("vllm-h200-3")["step_ms"], report("vllm-h200")["prompt_ms"]
    shapes = {"8B": "llama3-8b", "135M": "smollm2-135m"}
    steps, theirs = (
        [" / ".join(f"{each[threads]:.2f}" for threads in ("1", "4", "16", "32")) for each in found]
        for found in ([now[f"{shape} answer"] for shape in shapes], [vllm[name] for name in shapes.values()])
    )
    shares = [f"{now[f'{shape} replays']['share']:.3f}" for shape in shapes]
    many = [f"{now[f'{shape} 32 answers']['tokens_per_s']:,}" for shape in shapes]
    yield f"threads of one answer | {' | '.join(steps)} |"
    yield f"requests | {' | '.join(theirs)} |"
    yield f"on recorded answers | {' | '.join(shares)} |"
    yield f"tokens per second | {' | '.join(many)} |"
    yield f"vLLM's | {now['8B prompt']['8000']:.1f}; {prompt['8000']:.1f} |"
    yield "A step of 32 threads costs {:.2f} (8B) and {:.2f} (135M)".format(
        *(now[f"{shape} answer"]["32"] / now[f"{shape} answer"]["1"] for shape in shapes)
    )
    assert now["135M 32 answers"]["tokens_per_s"] < 40_000, "it misses its target"
    yield f"the run before gave {before['135M 32 answers']['tokens_per_s']:,} on a faster one"
    assert all(now[f"{shape} answer"][width] < ms for shape in shapes for width, ms in vllm[shapes[shape]].items())
    ratio = {row["threads"]: row["ratio"] for row in report("cpu-xeon")["steps"] if row["weights"] == "float32"}
    yield f"4 / 8 / 16 threads cost {' / '.join(f'{ratio[threads]:.2f}' for threads in (4, 8, 16))} times one"
    users = {row["users"]: row for row in report("users-1.5b-h200")["rows"] if row["mode"] == "free"}
    assert 0.95 < min(users[128]["faster_by_turn"]) < 1.05, "with 128 users the gain may be gone"


def of_the_adapter() -> Iterator[str]:
    """Each row of the table of tasks, and what is said below it."""
    words = tomllib.loads((ROOT / "pasta" / "docs" / "results.toml").read_text("utf-8"))
    shipped, first = report(f"eval-{words['headline']}"), report(f"eval-{words['before']}")
    tasks, chats = shipped["tasks"], shipped["models"]["pasta"]
    names = [f"{kind}_dev" for kind in ("several4-gsm8k", "several4-mbpp", "gather-gsm8k", "gather-mbpp")]
    for name in (*names, "freely-mbpp_dev", "chain-gsm8k_dev"):
        told = tasks[name]["pasta"]
        clock = told["realised_speedup"]
        line = [
            words["tasks"][name],
            points(told["over_reference"]),
            points(told["end_over_reference"]),
            f"{interval(clock)} ({clock['prompts']})" if clock else "–",
            interval(told["theoretical_speedup"]),
            f"{told['length_factor']['value']:.2f}",
        ]
        yield f"| {' | '.join(line)} |"
    sums, functions, _, main = (tasks[name]["pasta"]["realised_speedup"]["value"] for name in names)
    yield f"GSM8K problems {sums:.2f}x and MBPP functions {functions:.2f}x as fast"
    yield f"functions reach {functions:.2f}x and {main:.2f}x"
    over = [tasks[name]["pasta"]["over_reference"]["low"] for name in names]
    assert [low >= -0.02 for low in over] == [True, False, True, True], "which meet the target"
    assert all(tasks[name]["pasta"]["over_reference"]["low"] < -0.02 for name in ("freely-mbpp_dev", "chain-gsm8k_dev"))
    yield f"functions miss it by {-2 - 100 * over[1]:.1f}".replace("-", "")
    base = report(f"eval-{words['seeds']}")["tasks"]["freely-mbpp_dev"]["base"]
    freely = [each["score"]["value"] for each in (*map(tasks["freely-mbpp_dev"].get, ("pasta", "baseline")), base)]
    yield (
        "Free-form functions are {:.1%} correct, the baseline's {:.1%}, "
        "those of the base model before finetuning {:.1%}"
    ).format(*freely)
    totals = [first["tasks"]["gather-gsm8k_dev"][model]["end"] for model in ("pasta", "apar")]
    yield "got {} of the totals right, and {} when trained without syncs".format(*map(percent, totals))
    clock, wins = chats["realised_speedup"], chats["judged"]["features"]["lc_win_rate"]
    yield f"{percent(chats['forking'])} of the answers fork; realised speedup {interval(clock)}"
    yield f"{interval(clock)} on {clock['prompts']} prompts, length ratio {chats['length_factor']['value']:.2f}."
    yield f"win rate is {interval(wins, 1).replace(' ', '% ', 1)}"
    yield f"In {percent(chats['redundancy']['blocks_repeat'])} of the answers that fork, two blocks repeat"


def of_the_default() -> Iterator[str]:
    """Its table, a row for each baseline, and what is said below it."""
    own = report("eval-default-items")
    model, elsewhere = own["models"]["firm3"], own["elsewhere"]["firm3"]
    for baseline, told in (
        ("the previous default's own answers", model),
        ("both stages, one round of the second", elsewhere["default-own/baseline-two"]),
        ("stage one only", elsewhere["default-own/baseline"]),
    ):
        clock = told.get("realised_speedup")
        line = [
            baseline,
            f"{interval(clock)} ({clock['prompts']})" if clock else "–",
            interval(told["theoretical_speedup"]),
            f"{told['length_factor']['value']:.2f}",
            interval(told["judged"]["features"]["lc_win_rate"] if clock else None, 1),
        ]
        yield f"| {' | '.join(line)} |"
    yield f"{percent(model['forking'])} of the default's answers fork"
    yield f"in {percent(model['redundancy']['blocks_repeat'])} of those, two blocks repeat each other"


def test_the_tables_of_a_cpu_are_those_of_their_report() -> None:
    page = (ROOT / "pasta" / "docs" / "performance.md").read_text("utf-8").partition("## On a CPU")[2]
    cpu = report("cpu-xeon")
    assert f"**{cpu['baseline']['speedup']:.2f}**" in page
    rows = {(row["weights"], row["threads"]): row for row in cpu["steps"]}
    for threads in (1, 2, 4, 8, 16):
        own, eight = (rows[weights, threads] for weights in ("float32", "int8"))
        assert f" | {own['ratio']:.2f} | " in page and f" | {eight['ratio']:.2f} |" in page
    one, eight = (f"{each['wall_share']:.1%}" for each in cpu["overhead"])
    assert f"{one} of a replay with one thread, {eight} with eight" in " ".join(page.split())


def test_the_card_of_the_default_has_the_figures_of_its_report() -> None:
    pasta = ROOT / "pasta"
    card = (pasta / "src" / "pasta" / "models" / "default_adapter" / "README.md").read_text("utf-8")
    whole = json.loads((pasta / "benchmarks" / "results" / "eval-default-items.json").read_text())
    told, untagged = whole["models"]["firm3"], whole["models"]["firm3-untagged"]
    arithmetic, repeats, lengths = told["realised_speedup_arithmetic"], told["redundancy"], told["promises"]
    wins = [interval(each["judged"]["features"]["lc_win_rate"], 1).replace(" ", "% ", 1) for each in (told, untagged)]
    brief = whole["elsewhere"]["firm3"]["default-own/baseline"]["theoretical_speedup"]
    cells = [
        f"| {percent(told['well_formed'])} |",
        f"| {percent(told['forking'])}; {percent(told['forking_of_lists_and_paragraphs'])} |",
        f"| {interval(told['parallelism_of_forking'])}; {told['theoretical_parallelism']['value']:.2f} |",
        f"| {interval(told['theoretical_speedup'])} |",
        f"{arithmetic['prompts']} prompts | {interval(told['realised_speedup'])}; {arithmetic['value']:.2f} |",
        f"length ratio | {interval(told['length_factor'])} |",
        f"| {'; '.join(wins)} |",
        f"(stage one only) | {interval(brief)} |",
        f"repeat each other | {percent(repeats['blocks_repeat'])} |",
        f"empty | {percent(repeats['topics_unclean'])} |",
        f"loop | {percent(repeats['loops'])} |",
        f"constant: {lengths['within_one_constant']:.0%}) | {lengths['within_one']:.0%} of the blocks |",
    ]
    assert [cell for cell in cells if cell not in card] == []
