"""What each room needs beside itself: imports with packages taken away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support import byte_tokenizer, tiny_model

BLOCK = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {away!r} else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""

EVERY = """
import importlib, pkgutil
for room in {rooms!r}:
    package = importlib.import_module(room)
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), room + "."):
        importlib.import_module(module.name)
"""


def run_without(away: set[str], script: str) -> str:
    code = BLOCK.format(away=away) + script
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_language_and_its_core_need_no_torch() -> None:
    run_without({"torch", "transformers", "safetensors"}, EVERY.format(rooms=["pasta.lang", "pasta.core"]))


def test_a_server_in_front_of_another_engine_needs_no_torch() -> None:
    rooms = ["pasta.decoding", "pasta.engine.remote", "pasta.engine.connect", "pasta.serve.app", "pasta.serve.run"]
    run_without({"torch", "triton"}, EVERY.format(rooms=rooms))


def test_schemas_need_no_torch_and_plans_need_no_library() -> None:
    run_without({"torch", "triton"}, EVERY.format(rooms=["pasta.structured"]))
    script = """
from pasta.structured import MissingPackage, compile_schema, make_program
from pasta.core.vocabulary import Vocabulary
from support import byte_tokenizer
schema = {"type": "object", "properties": {"a": {"type": "string"}}}
assert len(compile_schema(schema).values) == 1
try:
    make_program(Vocabulary(byte_tokenizer()), schema)
except MissingPackage as error:
    print(error)
"""
    here = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    said = run_without({"llguidance"}, here + script)
    assert said == "answers by schema need the package llguidance (pip install 'pasta-decoding[structured]')\n"


def test_names_of_models_need_no_torch() -> None:
    run_without({"torch", "transformers"}, "from pasta.models import available; available()")


def test_a_model_in_a_folder_loads_without_what_the_cache_needs(tmp_path: Path) -> None:
    """A machine for bulk work may have torch and transformers alone."""
    tiny_model().save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    script = f"""
from pasta.engine.load import load_engine
engine = load_engine({str(tmp_path)!r}, device="cpu", tags=True, slots=64)
print(engine.name)
"""
    away = {"accelerate", "fastapi", "gguf", "peft", "platformdirs", "pydantic", "rich", "uvicorn"}
    assert run_without(away, script) == f"{tmp_path.name}\n"


def test_files_of_tests_have_names_of_their_own() -> None:
    """Pytest imports them by their names alone: two of one name cannot run together."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
