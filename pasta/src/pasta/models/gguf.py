"""A GGUF file becomes an ordinary Hugging Face folder, once: weights, tokenizer, configuration, template.

The weights are float32, although 16 bits would take half the space: the dequantised values fit neither
float16 nor bfloat16 exactly (42% and 79% of SmolLM2's change), the CPU computes in float32 anyway, and such
a file is mapped into memory without a conversion.
"""

import contextlib
import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

from pasta.core.vocabulary import Vocabulary
from pasta.errors import CorruptModel, ModelError, PastaError, UnsupportedModel, UsageError
from pasta.models import store
from pasta.models.checkpoint import check_whole, quiet, said
from pasta.models.gguf_rope import stretch
from pasta.models.header import Header, read_header
from pasta.models.progress import working

SAMPLE = 1 << 20
FORM = 2  # of what is made of a file: another one is made anew
UNSUPPORTED = ("not supported", "Cannot rebuild", "Cannot build", "Unrecognized")

# Vocabularies whose digits stand alone. transformers rebuilds these with GPT-2's splitting, under which the
# spaces before a number come out as other tokens than the model was trained on.
SINGLE_DIGITS = {"smollm", "starcoder", "refact", "command-r"}


def converted(path: Path) -> Path:
    """The cached folder of the GGUF file `path`, made now if it is not there."""
    header = read_header(path)
    name = f"gguf-{slug(path.stem)}-{fingerprint(path)}"
    return store.keep(name, lambda folder: convert(path, header, folder), converted_bytes(header))


def converted_bytes(header: Header) -> int:
    """Room for the float32 weights, the tokenizer and a margin."""
    return 4 * header.parameters + (64 << 20)


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:64] or "model"


def fingerprint(path: Path) -> str:
    """Tells this file from another without reading gigabytes: size, time, first and last megabyte."""
    stat = path.stat()
    digest = hashlib.sha256(f"{FORM}:{stat.st_size}:{stat.st_mtime_ns}".encode())
    with path.open("rb") as file:
        digest.update(file.read(SAMPLE))
        file.seek(max(0, stat.st_size - SAMPLE))
        digest.update(file.read(SAMPLE))
    return digest.hexdigest()[:12]


def convert(path: Path, header: Header, folder: Path) -> None:
    """Dequantises `path` into `folder`."""
    if header.metadata.get("split.count", 1) not in (0, 1):
        raise UnsupportedModel(f"{path} is one part of a split GGUF file", "merge the parts into one file first")
    with working(f"Converting {path.name} ({header.parameters / 1e6:,.0f}M parameters), once"):
        try:
            # The reader draws a bar of its own, which only a stderr that leads nowhere silences.
            with quiet(), contextlib.redirect_stderr(io.StringIO()):
                write_folder(path, header, folder)
        except (PastaError, OSError, MemoryError):
            raise
        except ImportError as error:
            raise ModelError(
                f"{path} cannot be converted: {said(error)}", 'install: pip install "pasta-decoding[torch]"'
            ) from error
        except Exception as error:  # reader, tokenizer and loader each have their own
            if "os error 28" in str(error):  # how safetensors reports a full disk
                raise store.no_space(store.models_root()) from error
            if any(sign in str(error) for sign in UNSUPPORTED):
                raise UnsupportedModel(
                    f"{path} holds a {header.architecture!r} model, which transformers cannot read from GGUF",
                    "use the model's original Hugging Face folder",
                ) from error
            raise CorruptModel(f"{path} cannot be converted: {said(error)}") from error


def write_folder(path: Path, header: Header, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    source = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    dense = GgufConfig(dequantize=True)  # newer versions would otherwise keep some weights in their blocks
    tokenizer = build_tokenizer(source, header)
    options = {"dtype": torch.float32, "quantization_config": dense}
    model, report = AutoModelForCausalLM.from_pretrained(
        **source, **options, output_loading_info=True, ignore_mismatched_sizes=True
    )
    check_whole(report, path)
    # Some versions still call the model quantised, which it is no longer, and then refuse to save it.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    stretch(model.config, path, header)
    model.generation_config.eos_token_id = ends(tokenizer, header)
    model.config.name_or_path = str(header.metadata.get("general.name", path.stem))
    model.save_pretrained(folder)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(folder)
    make_portable(folder)


def ends(tokenizer: Any, header: Header) -> list[int]:
    """The tokens that end an answer: those that the file names, and the one that its chat template writes after it.

    Many files name the end of a text alone, which is not what their model writes at the end of its turn.
    """
    named = (header.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
    found = {int(token) for token in named if token is not None}
    added = tokenizer.added_tokens_decoder
    with contextlib.suppress(UsageError):  # a template of its own kind
        found |= {token for token in Vocabulary(tokenizer).closing()[:1] if token in added and added[token].special}
    return sorted(found)


def make_portable(folder: Path) -> None:
    """What other programs and other users need to read the folder too."""
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    for key in ("is_local", "local_files_only", "backend"):  # how it was read, not what it is
        config.pop(key, None)
    if config.get("tokenizer_class") == "TokenizersBackend":  # the new name, unknown to older readers
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
    for file in folder.iterdir():  # safetensors writes files that their owner alone may read
        file.chmod(path.stat().st_mode)


def build_tokenizer(source: dict[str, str], header: Header) -> Any:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(**source)
    if header.metadata.get("tokenizer.ggml.pre") in SINGLE_DIGITS:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    return tokenizer
