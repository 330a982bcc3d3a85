"""The README's example runs as it stands, and its pictures, documents and figures exist."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

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
    """The README's tables, cell by cell, against the JSON that they name."""
    readme = (ROOT / "README.md").read_text("utf-8")
    results = ROOT / "pasta" / "benchmarks" / "results"
    gpu, before = (json.loads((results / f"table-h200-{run}.json").read_text())["rows"] for run in (7, 6))
    vllm = json.loads((results / "vllm-h200-2.json").read_text())["step_ms"]
    prompt = json.loads((results / "vllm-h200.json").read_text())["prompt_ms"]
    models = json.loads((results / "eval-default-own.json").read_text())["models"]
    cells = []
    for shape, name in (("8B", "llama3-8b"), ("135M", "smollm2-135m")):
        step, sampled = gpu[f"{shape} answer"], gpu[f"{shape} sampled answer"]["of greedy"]
        many = [f"{each[f'{shape} 32 answers']['tokens_per_s']:,}" for each in (gpu, before)]
        cells += [
            *(" / ".join(f"{each[threads]:.2f}" for threads in ("1", "4", "16", "32")) for each in (step, vllm[name])),
            f"{sampled['1']:.2f} / {sampled['32']:.2f}",
            f"| {gpu[f'{shape} replays']['share']:.2f} |",
            f"| {'; '.join(many)} |",
        ]
    cells += [f"| {gpu['8B fp8']['1']:.2f} |"]
    cells += [f"| {gpu['8B prompt']['8000']:.1f}; {prompt['8000']:.1f} |"]
    cpu = json.loads((results / "cpu-xeon.json").read_text())
    cells += [f"| {cpu['baseline']['speedup']:.2f} |"]
    for weights in ("float32", "int8"):
        ratio = {row["threads"]: row["ratio"] for row in cpu["steps"] if row["weights"] == weights}
        cells += [" / ".join(f"{ratio[threads]:.2f}" for threads in (4, 8, 16))]
    for model in (models[name] for name in ("new", "new-sft", "today")):
        figure = {name: found["value"] for name, found in model.items() if isinstance(found, dict) and "value" in found}
        cells += [f"| {figure[name]:.2f} |" for name in ("realised_speedup", "theoretical_speedup") if name in figure]
        cells += [
            f"| {model['judged']['features']['lc_win_rate']['value']:.1f}% |",
            f"{figure['forking']:.0%}; {figure['forking_of_lists_and_paragraphs']:.0%}",
            f"| {figure['parallelism_of_forking']:.2f} |",
            f"| {model['redundancy']['blocks_repeat']['value']:.0%} |",
            f"| {model['redundancy']['topics_repeat']['value']:.0%} |",
            f"| {model['redundancy']['repeated']['value']:.0%} |",
        ]
    words = tomllib.loads((ROOT / "pasta" / "docs" / "results.toml").read_text())
    shipped = json.loads((results / f"eval-{words['headline']}.json").read_text())
    tasks, chats = shipped["tasks"], shipped["models"]["pasta"]
    for name in ("several4-gsm8k_dev", "several4-mbpp_dev", "gather-mbpp_dev", "freely-mbpp_dev", "chain-gsm8k_dev"):
        told = tasks[name]["pasta"]
        clock = told["realised_speedup"]
        line = [
            points(told["over_reference"]),
            points(told["end_over_reference"]),
            f"{interval(clock)} ({clock['prompts']})" if clock else "–",
            interval(told["theoretical_speedup"]),
            f"{told['length_factor']['value']:.2f}",
            f"{percent(told['forking'])}; {percent(told['syncing'])}",
        ]
        cells.append(f"| {' | '.join(line)} |")
    clock, wins = interval(chats["realised_speedup"]), interval(chats["judged"]["features"]["lc_win_rate"], 1)
    base = json.loads((results / f"eval-{words['seeds']}.json").read_text())["tasks"]["freely-mbpp_dev"]["base"]
    freely = [each["score"]["value"] for each in (*map(tasks["freely-mbpp_dev"].get, ("pasta", "baseline")), base)]
    promised = shipped["promises"]["pasta"]
    functions, main = (
        tasks[name]["pasta"]["realised_speedup"]["value"] for name in ("several4-mbpp_dev", "gather-mbpp_dev")
    )
    sums = tasks["several4-gsm8k_dev"]["pasta"]["realised_speedup"]["value"]
    cells += [
        f"is done {sums:.2f} times (sums) and {functions:.2f} times (functions) as soon",
        "it gets {:.1%} of the functions right, and the baseline {:.1%}. The base model by itself gets {:.1%}".format(
            *freely
        ),
        f"by {promised['correlation']:.2f} over all tasks and by {promised['correlation_within']:.2f} within one",
        f"{percent(chats['forking'])} fork. {clock.replace(' ', 'x ', 1)} by the clock "
        f"({chats['realised_speedup']['prompts']} of them), {chats['theoretical_speedup']['value']:.2f}x in steps; "
        f"{chats['length_factor']['value']:.2f}x of that is shorter answers",
        f"prefers them, {wins.replace(' ', '% ', 1)}. In {percent(chats['redundancy']['blocks_repeat'])} of those",
        f"functions stop at {functions:.2f}x, and with a `main` at {main:.2f}x",
    ]
    for task, said in (("several4", "four in one"), ("gather", "with an end")):
        told = shipped["together"][task]["pasta"]
        over, clock = points(told["over_reference"]), interval(told["realised_speedup"])
        cells += [f"{said} {over.replace(' ', ' points ', 1)} at {clock.replace(' ', 'x ', 1)}"]
    told = json.loads((results / "eval-default-own.json").read_text())
    equal = told["equally_treated"]["new"]
    alike = json.loads((results / "eval-default-alike.json").read_text())["models"]
    own, plain = alike["today"], alike["today-untagged"]
    wins = [model["judged"]["features"]["lc_win_rate"]["value"] for model in (own, plain)]
    writers = json.loads((results / "repeating-lists.json").read_text())["writers"]
    repeating = [models[name]["redundancy"]["lists_repeat"] for name in ("baseline", "new")]
    its, ours, theirs = (f"{figure['value']:.0%}" for figure in (*repeating, writers["gpt4_1106_preview"]))
    cells += [
        f"| {interval(equal['theoretical_speedup'])} |",
        f"| {equal['length_factor']['value']:.2f} |",
        f"both stages: {models[equal['against']]['judged']['features']['lc_win_rate']['value']:.1f}%)",
        f"by the clock ({models['new']['realised_speedup']['prompts']} prompts)",
        f"(length factor {models['new']['length_factor']['value']:.2f})",
        f"of the baseline's lists {its} say something twice, of the default's {ours}, of GPT-4's {theirs}",
        f"by the clock ({own['realised_speedup']['prompts']} prompts) as",
        f"| {interval(own['realised_speedup'])} |",
        f"| {own['length_factor']['value']:.2f}; {wins[0]:.1f}%; {wins[1]:.1f}% |",
        f"without its tags, takes {own['realised_speedup']['value']:.2f} times as long",
    ]
    readme = readme + " ".join(readme.split())  # sentences run over lines
    assert [cell for cell in cells if cell not in readme] == []


def test_the_card_of_the_default_has_the_figures_of_its_report() -> None:
    pasta = ROOT / "pasta"
    card = (pasta / "src" / "pasta" / "models" / "default_adapter" / "README.md").read_text("utf-8")
    told = json.loads((pasta / "benchmarks" / "results" / "eval-default-own.json").read_text())["models"]["new"]
    arithmetic, repeats, lengths = told["realised_speedup_arithmetic"], told["redundancy"], told["promises"]
    cells = [
        f"| {percent(told['well_formed'])} |",
        f"| {percent(told['forking'])}; {percent(told['forking_of_lists_and_paragraphs'])} |",
        f"| {interval(told['parallelism_of_forking'])}; {told['theoretical_parallelism']['value']:.2f} |",
        f"| {interval(told['theoretical_speedup'])} |",
        f"{arithmetic['prompts']} prompts | {interval(told['realised_speedup'])}; {arithmetic['value']:.2f} |",
        f"| {interval(told['judged']['features']['lc_win_rate'], 1).replace(' ', '% ', 1)} |",
        f"| {percent(repeats['blocks_repeat'])} |",
        f"loops | {percent(repeats['loops'])} |",
        f"constant: {lengths['within_one_constant']:.0%}) | {lengths['within_one']:.0%} of the blocks |",
    ]
    alike = json.loads((pasta / "benchmarks" / "results" / "eval-default-alike.json").read_text())["models"]
    clock = alike["today"]["realised_speedup"]
    wins = [alike[name]["judged"]["features"]["lc_win_rate"]["value"] for name in ("today", "today-untagged")]
    cells += [
        f"{clock['prompts']} prompts | {interval(clock)} |",
        f"| {alike['today']['length_factor']['value']:.2f}; {wins[0]:.1f}%; {wins[1]:.1f}% |",
    ]
    assert [cell for cell in cells if cell not in card] == []
