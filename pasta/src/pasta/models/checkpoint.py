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
        return sorted(set(json.loads((folder / INDEX).read_text("utf-8"))["weight_map"].values()))
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
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{folder / 'config.json'} does not read: {error}") from error
    model_type, architectures = raw.get("model_type"), raw.get("architectures") or []
    families = (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    known = {name for names in families for value in names.values() for name in as_names(value)}
    if not any(model_type in names for names in families) or (architectures and not known & set(architectures)):
        named = ", ".join(architectures) or model_type or "no model type"
        raise UnsupportedModel(f"{folder} holds {named}, which is not a causal language model that transformers knows")
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # each model family validates its configuration in its own way
        raise CorruptModel(f"{folder / 'config.json'} is not a valid configuration: {error}") from error


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
        raise CorruptModel(f"the tokenizer in {folder} does not read: {error}") from error
    return tokenizer


def end_tokens(*named: int | Sequence[int] | None) -> list[int]:
    """The tokens that end a response, by the first place that names any."""
    for ends in named:
        if ends is not None:
            return [ends] if isinstance(ends, int) else list(ends)
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
            folder, local_files_only=True, use_safetensors=True, output_loading_info=True, **options
        )
    except (PastaError, MemoryError):
        raise
    except Exception as error:  # each family's loader has its own exceptions
        raise CorruptModel(f"the weights in {folder} do not read: {error}") from error
    # transformers fills missing weights with random numbers and goes on; the answer would be noise.
    if missing := sorted(report["missing_keys"]):
        raise CorruptModel(f"the weights in {folder} lack {len(missing)} tensors, {missing[0]} first")
    return model


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
