"""Reads and writes rows: JSON lines or a JSON list (plain, .gz, .xz), Parquet files, Hugging Face data sets."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import lzma
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pasta.data.fields import is_unicode, prompt_of
from pasta.errors import PastaError, UsageError
from pasta.models import hub
from pasta.outputs import check_file, check_folder

Row = dict[str, Any]
JSON_LINES = (".jsonl", ".json", ".ndjson")
PARQUET = ".parquet"
TABLES = (".csv", ".tsv")
LISTS = ("data", "rows", "examples")  # of rows, in a file that is one object
GLANCE = 1 << 26  # characters: of a file that begins with no row, so much is read to say what it is
EXPECTED_LINES = "expected one object a line, or one list of them"


def is_json_lines(path: str | Path) -> bool:
    name = str(path).removesuffix(".gz").removesuffix(".xz")
    return name.endswith(JSON_LINES)


def read_rows(source: str, split: str = "train") -> Iterator[Row]:
    """The rows of a file, of a data set's folder, or of a data set on the hub: `owner/name`, `owner/name:config`."""
    if is_json_lines(source) or os.path.isfile(source):
        yield from _read_file(source)
        return
    if not source.strip():
        raise UsageError("the data set has no name", "expected a file, a folder, or a data set of the hub")
    datasets = _datasets(source)
    name, _, config = source.partition(":")
    try:
        if any(os.path.isfile(Path(source) / file) for file in ("state.json", "dataset_dict.json")):
            found = datasets.load_from_disk(source)
            if hasattr(found, "keys"):
                if split not in found:
                    raise UsageError(f"{source} has no split {split}", f"it has {', '.join(found)}: name one of these")
                found = found[split]
        else:
            if not os.path.exists(source):
                datasets.config.HF_HUB_OFFLINE = not hub.reachable()  # then what is in the cache, at once
            found = datasets.load_dataset(name, config or None, split=split)
    except UsageError:
        raise
    except Exception as error:  # each loader raises its own
        hint = "expected JSON lines, a Parquet file, or a folder that a data set was saved to"
        if not os.path.exists(source):
            on_hub = "is it a data set of the hub?" if hub.reachable() else "the Hugging Face hub is not reachable"
            hint = f"there is no such file or folder here; {on_hub}"
        raise UsageError(f"cannot read the data set {source}, split {split}: {error}", hint) from error
    for row in found:
        yield dict(row)


def check_rows(source: str) -> None:
    """Refuses a file that is not there or cannot be read, before what takes longer; a data set is not looked at."""
    if is_json_lines(source) or os.path.isfile(source):
        next(_read_file(source), None)


def check_target(target: str) -> None:
    """Refuses what `write_rows` could not write."""
    (check_file if is_json_lines(target) else check_folder)(target)


def write_rows(target: str, rows: Iterable[Row]) -> None:
    """Writes all rows at once: the target is either what it was before, or complete."""
    path = Path(target)
    if is_json_lines(target):
        try:
            handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        except OSError as error:
            raise UsageError(f"cannot write {target}: {error.strerror}", "name a file in another folder") from None
        os.close(handle)
        try:
            with open_text(Path(partial), "wt", like=target) as out:
                out.writelines(map(dump, rows))
            with open(partial, "rb+") as written:
                os.fsync(written.fileno())
            os.chmod(partial, 0o666 & ~_umask())
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            raise
        return
    datasets = _datasets(target)
    datasets.Dataset.from_list(list(rows)).save_to_disk(target)


def open_text(path: Path, mode: str, like: str | None = None) -> IO[str]:
    """Opens a text file in UTF-8, packed as the name (or `like`) says; a byte order mark at its head is no text."""
    name = like or str(path)
    encoding = "utf-8-sig" if mode.startswith("r") else "utf-8"
    if name.endswith(".gz"):
        return gzip.open(path, mode, encoding=encoding)  # type: ignore[return-value]
    if name.endswith(".xz"):
        return lzma.open(path, mode, encoding=encoding)  # type: ignore[return-value]
    return open(path, mode, encoding=encoding)


def dump(row: Mapping[str, Any]) -> str:
    """A row as a line. Data sets hold dates and the like, which JSON does not know: those become texts."""
    text = json.dumps(row, ensure_ascii=False, default=str)
    # Half a character, in whichever field, can be spelled and not be written.
    return (text if is_unicode(text) else json.dumps(row, default=str)) + "\n"


def _read_file(source: str) -> Iterator[Row]:
    if source.lower().endswith(TABLES) and os.path.isfile(source):
        tabs = source.lower().endswith(".tsv")
        opened = "open(sys.argv[1], encoding='utf-8-sig')" + (", delimiter='\\t'" if tabs else "")
        to_json = f"import csv, json, sys; [print(json.dumps(row)) for row in csv.DictReader({opened})]"
        raise UsageError(
            f"{source} is a table ({'TSV' if tabs else 'CSV'}), {EXPECTED_LINES}",
            f'make JSON lines of it: python -c "{to_json}" {source} > {Path(source).stem}.jsonl',
        )
    return _read_parquet(source) if source.endswith(PARQUET) else _read_json(Path(source))


def _read_parquet(source: str) -> Iterator[Row]:
    parquet = _import("pyarrow.parquet", f"{source} is a Parquet file")
    try:
        for batch in parquet.ParquetFile(source).iter_batches():
            yield from batch.to_pylist()
    except (OSError, ValueError) as error:  # Arrow's own errors are both
        raise PastaError(f"cannot read {source}: {error}") from error


def _read_json(path: Path) -> Iterator[Row]:
    """An object a line; or, where the file begins with a bracket, one list of objects, as ShareGPT's files are."""
    try:
        with open_text(path, "rt") as lines:
            filled = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
            for place, (number, line) in enumerate(filled):
                if place == 0 and line.lstrip().startswith("["):
                    yield from _read_list(path, line + lines.read())
                    return
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    if place == 0:
                        _check_lines(path, line + lines.read(GLANCE))
                    raise PastaError(f"{path}:{number}: not JSON: {error}", EXPECTED_LINES) from error
                if place == 0:
                    _check_rows_within(path, row)
                if not isinstance(row, dict):
                    raise PastaError(f"{path}:{number}: not a JSON object", EXPECTED_LINES)
                yield row
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise PastaError(f"cannot read {path}: {error}", "expected JSON lines in UTF-8, plain, .gz or .xz") from error
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise PastaError(f"cannot read {path}: {error}") from error


def _check_lines(path: Path, text: str) -> None:
    """Refuses a file whose first object goes on in the next lines, as `json.dump(…, indent=2)` writes one."""
    try:
        row, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return
    _check_rows_within(path, row)
    if isinstance(row, dict):
        raise PastaError(
            f"{path} holds an object that goes over several lines, {EXPECTED_LINES}",
            f"put each on one line: jq -c . {path} > lines.jsonl",
        )


def _check_rows_within(path: Path, row: Any) -> None:
    """Refuses a file that is one object, with the rows in a list of its own: `{"data": [...]}`."""
    if not isinstance(row, dict) or prompt_of(row) is not None:
        return
    for name in LISTS:
        if isinstance(rows := row.get(name), list) and rows and all(isinstance(each, dict) for each in rows):
            raise PastaError(
                f"{path} is one object, with a list of {len(rows)} rows in its {name!r}, {EXPECTED_LINES}",
                f"take the list out: jq -c '.{name}[]' {path} > rows.jsonl",
            )


def _read_list(path: Path, text: str) -> Iterator[Row]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PastaError(f"{path}: not JSON: {error}", EXPECTED_LINES) from error
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise PastaError(f"{path}: entry {number} of the list is not a JSON object")
        yield row


def _datasets(source: str) -> Any:
    return _import("datasets", f"{source} is not a JSON lines file ({', '.join(JSON_LINES)}, also .gz and .xz)")


def _import(module: str, told: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        hint = "for Hugging Face data sets and Parquet files: pip install 'pasta-decoding[train]'"
        raise UsageError(told, hint) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
