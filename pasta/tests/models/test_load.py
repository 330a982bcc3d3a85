"""Folders: the default one, tiny ones of other kinds, and damaged ones."""

import json
import os
import re
import shutil

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

from pasta.engine.load import load_engine
from pasta.errors import CorruptModel, UnknownModel, UnsupportedModel, UsageError
from pasta.models import available, bundled, load_model, resolve
from pasta.models.checkpoint import read_tokenizer
from pasta.models.load import default_dtype


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, default_folder):
    """A complete folder of a tiny random Llama with the default model's tokenizer."""
    folder = tmp_path_factory.mktemp("tiny")
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    for file in default_folder.path.glob("*token*"):
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def copy(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "copy")


def test_default_model_answers(default_folder, default_model):
    model, tokenizer = default_model.model, default_model.tokenizer
    assert default_folder.source == "bundled"
    assert model.dtype == torch.float32
    assert not model.training
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    inputs = tokenizer(text, return_tensors="pt")
    output = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(output[0, inputs["input_ids"].shape[1] :])


def test_spaces_before_digits_are_split_as_in_training(default_model):
    tokenizer = default_model.tokenizer
    assert tokenizer.tokenize("a   42") == ["a", "ĠĠĠ", "4", "2"]
    assert tokenizer.tokenize("In 2024") == ["In", "Ġ", "2", "0", "2", "4"]


def test_default_by_any_of_its_names(default_folder):
    assert resolve() == resolve("default") == resolve(bundled.FINETUNED)
    assert (resolve().path, resolve().base) == (bundled.ADAPTER, default_folder)


def test_folder(tiny):
    folder = resolve(str(tiny))
    assert (folder.source, folder.path) == ("folder", tiny.resolve())
    loaded = load_model(str(tiny), device="cpu")
    assert (loaded.name, loaded.folder) == (tiny.name, folder)
    assert loaded.model.dtype == torch.float32
    assert len(loaded.tokenizer) == 49152


@pytest.mark.parametrize("dtype", [torch.bfloat16, "bfloat16"])
def test_the_dtype_is_the_callers(tiny, dtype):
    assert load_model(str(tiny), dtype=dtype, device="cpu").model.dtype == torch.bfloat16


def test_a_dtype_that_is_none(tiny):
    with pytest.raises(UsageError, match="unknown dtype 'int4'"):
        load_model(str(tiny), dtype="int4")


def test_a_whole_model_takes_no_base(tiny):
    with pytest.raises(UsageError, match="whole model"):
        load_model(str(tiny), base=str(tiny))


def test_default_dtype(tiny):
    config = LlamaConfig(dtype=torch.float16)
    assert default_dtype(config, "cpu") == torch.float32
    assert default_dtype(config, "cuda") == torch.float16
    assert default_dtype(LlamaConfig(dtype=torch.float32), "cuda") == torch.bfloat16


def test_loading_is_quiet(tiny, capfd):
    load_model(str(tiny), device="cpu")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(copy, name):
    (copy / name).unlink()
    with pytest.raises(CorruptModel, match=name):
        resolve(str(copy))


def test_an_index_with_a_missing_shard(copy):
    (copy / "model.safetensors").unlink()
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CorruptModel, match="model-00001-of-00002"):
        resolve(str(copy))


@pytest.mark.parametrize("names", [{}, {"a": 1}, {"a": None}])
def test_an_index_that_names_no_files(copy, names):
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    with pytest.raises(CorruptModel, match=r"index\.json does not read: its weight_map names no files"):
        resolve(str(copy))


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def changed(**values):
    return lambda data: json.dumps(json.loads(data) | values).encode()


def damage(folder, name, edit):
    (folder / name).write_bytes(edit((folder / name).read_bytes()))


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("model.safetensors", lambda data: data[: len(data) // 2], r"copy/model\.safetensors is damaged or cut short"),
        ("model.safetensors", lambda data: b"\xff" * 100, r"copy/model\.safetensors is damaged or cut short"),
        ("config.json", lambda data: data[:50], "does not read"),
        ("config.json", lambda data: b"[]", "does not read"),
        ("config.json", lambda data: 100_000 * b"[", "does not read"),
        ("config.json", lambda data: b"\xff\xfe", "does not read"),
        ("config.json", changed(model_type=["llama"]), "does not read: its model_type and architectures are no names"),
        ("config.json", changed(architectures="LlamaForCausalLM"), "does not read: its model_type and archi"),
        ("config.json", changed(num_attention_heads="2"), "is not a valid configuration: [^\n]*expected int, got str"),
        (
            "config.json",
            changed(hidden_size=64),
            r"do not fit: lm_head.weight is \(49152, 32\), expected \(49152, 64\)",
        ),
        ("config.json", changed(rope_parameters={"rope_type": "magic"}), "do not read: KeyError 'magic'"),
        ("generation_config.json", changed(eos_token_id="</s>"), "eos_token_id is '</s>', expected a token id or a"),
        ("generation_config.json", changed(eos_token_id=[[1]]), r"eos_token_id is \[\[1\]\], expected a token id"),
        ("tokenizer.json", lambda data: data[:5000], "tokenizer"),
    ],
)
def test_damaged_files(copy, name, edit, said):
    damage(copy, name, edit)
    with pytest.raises(CorruptModel, match=said):
        load_model(str(copy), device="cpu")


def shut(path):
    """Nobody may read the file; root, who may read every file, cannot test that."""
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")


def test_weights_that_may_not_be_read_are_not_called_missing(copy):
    shut(copy / "model.safetensors")
    with pytest.raises(CorruptModel, match=r"cannot read .*/model\.safetensors: Permission denied \(make it"):
        load_model(str(copy), device="cpu")


@pytest.mark.parametrize(("harm", "said"), [(shut, "cannot read {}: Permission"), (cut, "{} is damaged or cut short")])
def test_of_several_files_the_one_that_does_not_read_is_named(copy, harm, said):
    model = load_model(str(copy), device="cpu").model
    (copy / "model.safetensors").unlink()
    model.save_pretrained(copy, max_shard_size="10KB")
    shards = sorted(copy.glob("model-*.safetensors"))
    assert len(shards) > 2
    harm(shards[1])
    with pytest.raises(CorruptModel, match=re.escape(said.format(shards[1]))):
        load_model(str(copy), device="cpu")


def test_missing_tensors_are_not_filled_with_noise(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(CorruptModel, match="lack 9 tensors"):
        load_model(str(copy), device="cpu")


def test_a_training_that_was_interrupted_names_its_newest_checkpoint(tiny, tmp_path):
    for number, age in ((9, 0), (25, 100)):
        shutil.copytree(tiny, tmp_path / f"checkpoint-{number}")
        os.utime(tmp_path / f"checkpoint-{number}" / "config.json", (age, age))
    with pytest.raises(CorruptModel, match=r"no config\.json \(.*checkpoint-25 is one\)"):
        resolve(str(tmp_path))


def test_no_tokenizer(copy):
    for file in copy.glob("*token*"):
        file.unlink()
    with pytest.raises(CorruptModel, match="tokenizer"):
        load_model(str(copy), device="cpu")


@pytest.mark.parametrize("family", ["qwen2", "gemma", "gpt2"])
def test_a_tokenizer_without_its_words(tmp_path, family):
    """transformers makes one of nothing, to which every text is empty."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    added = {"9": {"content": "<tool_call>", "special": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<e>", "added_tokens_decoder": added}))
    with pytest.raises(CorruptModel, match=r"has no words \(look whether its tokenizer\.json is there\)"):
        read_tokenizer(tmp_path)


def test_a_model_without_a_causal_head(tmp_path):
    config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16)
    BertForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match="BertForMaskedLM"):
        load_model(str(tmp_path), device="cpu")


def test_an_unknown_model_type(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(
        json.dumps(config | {"model_type": "zebra", "architectures": ["ZebraForCausalLM"]})
    )
    with pytest.raises(UnsupportedModel, match="ZebraForCausalLM"):
        load_model(str(copy), device="cpu")


def test_names_that_are_none(tmp_path):
    with pytest.raises(UsageError, match="empty"):
        resolve(" ")
    for name in ("./nothing", "~/no/such", "a/b/c", "x y"):
        with pytest.raises(UnknownModel, match="no such file"):
            resolve(name)
    (tmp_path / "weights.bin").touch()
    with pytest.raises(CorruptModel, match=r"neither a model folder nor a \.gguf file"):
        resolve(str(tmp_path / "weights.bin"))


def test_available_lists_the_default(default_folder):
    finetuned, base = available()[:2]
    assert (finetuned.name, finetuned.ready, finetuned.path) == (bundled.FINETUNED, True, bundled.ADAPTER)
    assert 10_000_000 < finetuned.bytes < 20_000_000
    assert (base.name, base.source, base.ready, base.path) == (bundled.NAME, "bundled", True, default_folder.path)
    assert base.bytes > 500_000_000


def test_available_before_the_first_fetch(tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    finetuned, base = available()[:2]
    assert (finetuned.ready, base.ready, base.bytes) == (False, False, bundled.WHEEL_BYTES)
    assert not list(tmp_path.iterdir()), "listing writes nothing"


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_here(tiny, device):
    with pytest.raises(UsageError, match=f"cannot use the device '{device}'"):
        load_model(str(tiny), device=device)


@pytest.mark.parametrize("name", [300 * "n", f"/{300 * 'n'}/model", "~nobody-of-this-name/model"])
def test_names_that_can_be_no_path(name):
    with pytest.raises(UnknownModel, match="unknown model"):
        load_model(name)


@pytest.mark.parametrize("name", [5, b"model", True, ["model"]])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(UsageError, match="expected a name, a folder"):
        load_model(name)
    with pytest.raises(UsageError, match="expected a name, a folder"):
        load_model(base=name)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "many"])
@pytest.mark.parametrize("option", ["context", "slots"])
def test_sizes_that_are_none_are_refused(tiny, option, value):
    with pytest.raises(UsageError, match=f"{option} is {value!r}, expected a whole number, 1 or more"):
        load_engine(str(tiny), **{option: value})


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU takes them")
def test_weights_in_fp8_need_a_gpu(tiny):
    with pytest.raises(UsageError, match=r"fp8 weights need a CUDA device \(use int8 on a CPU\)"):
        load_engine(str(tiny), dtype="fp8")


def test_the_default_adapter_over_another_base_says_so(tiny):
    with pytest.raises(
        CorruptModel, match=r"is not one of this model: .* against .* \(say with --base where its own base"
    ):
        load_model(base=str(tiny))
