"""The files of a model's folder, each with one clear line when it is not what it should be."""

import contextlib
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pasta.errors import CorruptModel, PastaError, UnsupportedModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TEMPLATE = "chat_template.json"  # of models that read images, where nothing else has one


def check_files(folder: Path) -> None:
    """`CorruptModel`, unless `folder` holds a configuration and every file of its weights."""
    if not (folder / "config.json").is_file():
        raise CorruptModel(f"{folder} is not a model folder: it has no config.json", hint_inside(folder))
    missing = [name for name in weight_files(folder) if not (folder / name).is_file()]
    if missing:
        raise CorruptModel(f"{folder} lacks its weights: no {missing[0]}", "only safetensors weights are read")


def hint_inside(folder: Path) -> str:
    """Where a model lies one folder further down, as the checkpoints of a training that was interrupted do."""
    inside = [file for name in ("config.json", "adapter_config.json") for file in folder.glob(f"*/{name}")]
    newest = max(inside, key=lambda file: file.stat().st_mtime, default=None)
    return f"{newest.parent} is one" if newest else ""


def is_model(folder: Path) -> bool:
    """Whether the folder holds a whole model."""
    try:
        check_files(folder)
    except CorruptModel:
        return False
    return True


def weight_files(folder: Path) -> list[str]:
    """The files that hold the weights: one, or the shards that an index names."""
    if not (folder / INDEX).is_file():
        return [WEIGHTS]
    try:
        names = set(json.loads((folder / INDEX).read_text("utf-8"))["weight_map"].values())
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError("its weight_map names no files")
        return sorted(names)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise CorruptModel(f"{folder / INDEX} does not read: {error}") from error


def check_weights(files: Iterable[Path]) -> None:
    """`CorruptModel` for the first file that cannot be read, with its name and why.

    safetensors says of a file that may not be read that there is none, and of a damaged one not which it is.
    """
    from safetensors import SafetensorError, safe_open

    for file in files:
        try:
            with file.open("rb"):
                pass
            with safe_open(file, framework="pt"):  # reads its header, which says how long the file has to be
                pass
        except OSError as error:
            raise CorruptModel(f"cannot read {file}: {error.strerror or error}", "make it readable") from error
        except SafetensorError as error:
            raise CorruptModel(f"{file} is damaged or cut short: {error}", "fetch or copy it again") from error


def read_config(folder: Path) -> Any:
    """The configuration, if it is one of a causal language model, alone or with eyes."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    )

    check_files(folder)
    try:
        raw = json.loads((folder / "config.json").read_text("utf-8"))
        if not isinstance(raw, dict):
            raise ValueError("not a JSON object")
        model_type, architectures = raw.get("model_type"), raw.get("architectures") or []
        if not (
            isinstance(architectures, list)
            and all(isinstance(name, str) for name in (model_type or "", *architectures))
        ):
            raise ValueError("its model_type and architectures are no names")
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{folder / 'config.json'} does not read: {error}") from error
    families = (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    known = {name for names in families for value in names.values() for name in as_names(value)}
    if not any(model_type in names for names in families) or (architectures and not known & set(architectures)):
        named = ", ".join(architectures) or model_type or "no model type"
        raise UnsupportedModel(f"{folder} holds {named}, which is not a causal language model that transformers knows")
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # each model family validates its configuration in its own way
        raise CorruptModel(f"{folder / 'config.json'} is not a valid configuration: {said(error)}") from error


def said(error: Exception) -> str:
    """What a library said, on one line; where that is a bare word, such as a missing key's, with the error's name."""
    text = " ".join(str(error).split())
    return text if " " in text else f"{type(error).__name__} {text}".strip()


def as_names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def read_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if hasattr(tokenizer, "legacy"):  # how Llama's begins texts, which transformers forgets where it saves one
            tokenizer.init_kwargs["legacy"] = tokenizer.legacy
        if tokenizer.chat_template is None and (folder / TEMPLATE).is_file():
            tokenizer.chat_template = json.loads((folder / TEMPLATE).read_text("utf-8"))["chat_template"]
    except Exception as error:  # the tokenizers library raises bare Exception for a damaged file
        raise CorruptModel(f"the tokenizer in {folder} does not read: {said(error)}") from error
    added = {*tokenizer.get_added_vocab(), *tokenizer.all_special_tokens}
    if len(tokenizer) <= len(added) and added.issuperset(tokenizer.get_vocab()):
        raise CorruptModel(f"the tokenizer in {folder} has no words", "look whether its tokenizer.json is there")
    return tokenizer


def end_tokens(*named: int | Sequence[int] | None) -> list[int]:
    """The tokens that end a response, by the first place that names any."""
    for ends in named:
        if ends is not None:
            found = list(ends) if isinstance(ends, Iterable) else [ends]
            if not all(isinstance(token, int) for token in found):
                raise CorruptModel(f"the model's eos_token_id is {ends!r:.60}, expected a token id or a list of them")
            return found
    return []


def ends_of(model: "PreTrainedModel", folder: Path) -> list[int]:
    """All the tokens that end a response by the model's own word."""
    written = json.loads((folder / "config.json").read_text("utf-8"))  # a family's own default may be any token here
    named = getattr(model.generation_config, "eos_token_id", None)
    return end_tokens(named, written.get("eos_token_id"), (written.get("text_config") or {}).get("eos_token_id"))


def read_weights(folder: Path, **options: Any) -> "PreTrainedModel":
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    config = options.get("config") or read_config(folder)
    causal = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    check_weights(folder / name for name in weight_files(folder))
    try:
        model, report = (AutoModelForCausalLM if causal else AutoModelForImageTextToText).from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # to be named below
            **options,
        )
    except (PastaError, MemoryError):
        raise
    except Exception as error:  # each family's loader has its own exceptions
        raise CorruptModel(f"the weights in {folder} do not read: {said(error)}") from error
    check_whole(report, folder)
    return model


def check_whole(report: dict[str, Any], place: Path) -> None:
    """Refuses weights that lack something, by what transformers reports: it puts random numbers there and goes on."""
    if odd := sorted(report["mismatched_keys"]):
        name, stored, wanted = odd[0]
        raise CorruptModel(f"the weights in {place} do not fit: {name} is {tuple(stored)}, expected {tuple(wanted)}")
    if missing := sorted(report["missing_keys"]):
        raise CorruptModel(f"the weights in {place} lack {len(missing)} tensors, {missing[0]} first")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the libraries' bars and warnings off the terminal; what matters comes back as an exception."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(), no_bars():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """Keeps transformers' bars for reading and writing weights off the terminal."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()
