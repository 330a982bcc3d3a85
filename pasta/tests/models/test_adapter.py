"""Adapters: what comes back is what was saved, without peft and with it."""

from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from adapters import make_adapter
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.errors import CorruptModel, ModelError, UnknownModel
from pasta.models import load_model
from pasta.models.adapter import WEIGHTS, Base, base_of, is_adapter, weights_checksum
from pasta.models.extract import extract_adapter
from pasta.models.lora import new_adapter
from pasta.models.merge import apply_adapter
from pasta.models.tags import add_tags
from pasta.models.taught import mark
from pasta.train import sft
from pasta.train.config import SftConfig
from support import SIZES, byte_tokenizer, tiny_model

IDS = torch.arange(40)[None]


def logits(model) -> torch.Tensor:
    with torch.inference_mode():
        return model.eval()(input_ids=IDS, use_cache=False).logits


def shaken(model, rank: int | None, seed: int = 0) -> None:
    """Moves every linear layer by an update of this rank (None: of full rank)."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and name != "lm_head":
                out, into = module.weight.shape
                change = torch.randn(out, into) if rank is None else torch.randn(out, rank) @ torch.randn(rank, into)
                module.weight += 0.02 * change


def test_lora_of_a_mixture_of_experts_round_trip(tmp_path: Path) -> None:
    """Of its attention: asked for every layer, peft also takes the experts' tables, which nobody could merge."""
    config = transformers.Qwen3MoeConfig(**SIZES, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
    transformers.Qwen3MoeForCausalLM(config).save_pretrained(tmp_path / "base")
    byte_tokenizer().save_pretrained(tmp_path / "base")
    loaded = load_model(str(tmp_path / "base"), device="cpu")
    add_tags(loaded.model, loaded.vocabulary)
    before = logits(loaded.model)
    adapted = make_adapter(loaded, tmp_path / "adapter", std=0.1, rows=0.5)
    assert not torch.allclose(logits(adapted), before, atol=0.1)
    again = load_model(str(tmp_path / "adapter"), device="cpu")
    torch.testing.assert_close(logits(again.model), logits(adapted), rtol=0, atol=2e-2)


def test_merging_writes_into_no_mapped_file(tmp_path: Path, base: str) -> None:
    """Pages of a mapped file that were written to stay in memory for as long as any weight of the file is used."""
    loaded = load_model(base, device="cpu")
    add_tags(loaded.model, loaded.vocabulary)
    make_adapter(loaded, tmp_path / "adapter", std=0.1, rows=0.5)
    fresh = load_model(base, device="cpu")
    before = {name: (each, each.clone()) for name, each in weights(fresh.model)}
    apply_adapter(fresh.model, fresh.vocabulary, tmp_path / "adapter")
    merged = dict(weights(fresh.model))
    changed = [name for name, (_, then) in before.items() if not merged[name].equal(then)]
    assert len(changed) >= 7
    assert all(there.equal(then) for there, then in before.values())
    assert all(merged[name].untyped_storage().nbytes() == merged[name].nbytes for name in changed)


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="tells what is mapped on Linux alone")
def test_of_a_merged_model_no_file_stays_mapped(tmp_path: Path, base: str) -> None:
    """By one norm that lies there, the whole file counts as memory of the process, beside the merged weights."""
    own = shutil.copytree(base, tmp_path / "base")  # which no other test's model holds
    place, maps = str(own / "model.safetensors"), Path("/proc/self/maps")
    plain = load_model(str(own), device="cpu", tags=True)
    assert place in maps.read_text()
    make_adapter(plain, tmp_path / "adapter")
    del plain
    gc.collect()
    loaded = load_model(str(tmp_path / "adapter"), device="cpu")
    assert loaded.model is not None and place not in maps.read_text()


def weights(model) -> list[tuple[str, torch.Tensor]]:
    """Of its linear layers, as they lie in memory now."""
    layers = [(name, each) for name, each in model.named_modules() if isinstance(each, torch.nn.Linear)]
    return [(name, each.weight.data) for name, each in layers if name != "lm_head"]


@pytest.mark.parametrize("positions", ["fixed:40", "ones"])
def test_lora_round_trip(tmp_path: Path, base: str, positions: str) -> None:
    loaded = load_model(base, device="cpu")
    scheme = Positions.parse(positions)
    add_tags(loaded.model, loaded.vocabulary, scheme.unit)
    mark(loaded.model, Taught(scheme, 2))
    before = logits(loaded.model)
    adapted = make_adapter(loaded, tmp_path / "adapter", std=0.1, rows=0.5)
    assert not torch.allclose(logits(adapted), before, atol=0.1)
    assert is_adapter(tmp_path / "adapter")
    assert base_of(tmp_path / "adapter") == Base.of(loaded.folder)
    again = load_model(str(tmp_path / "adapter"), device="cpu")
    assert again.vocabulary.tags == loaded.vocabulary.tags
    assert again.model.config.pasta == {"positions": positions, "depth": 2}
    torch.testing.assert_close(logits(again.model), logits(adapted), rtol=1e-2, atol=2e-2)  # kept in 16 bits


def test_a_token_beyond_the_base_models_table_is_the_same_in_every_run(tmp_path: Path, base: str) -> None:
    """As of a tokenizer that was given a padding token, and of a model that was not told."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    AutoModelForCausalLM.from_pretrained(base).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    loaded = load_model(str(tmp_path / "base"), device="cpu")
    add_tags(loaded.model, loaded.vocabulary)
    make_adapter(loaded, tmp_path / "adapter")
    one, other = (load_model(str(tmp_path / "adapter"), device="cpu").model for _ in range(2))
    torch.testing.assert_close(logits(one), logits(other), rtol=0, atol=0)


def test_an_update_begins_as_none(base: str) -> None:
    loaded = load_model(base, device="cpu", tags=True)
    before = logits(loaded.model)
    torch.testing.assert_close(logits(new_adapter(loaded.model, loaded.vocabulary.tags.all, 3, 6.0)), before)  # type: ignore[union-attr]


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_extraction_of_a_low_rank_change_is_exact(tmp_path: Path, family: str) -> None:
    base = tiny_model(family)
    tuned, vocabulary = tiny_model(family), Vocabulary(byte_tokenizer())
    add_tags(tuned, vocabulary)
    shaken(tuned, rank=2)
    with torch.no_grad():
        tuned.model.norm.weight += 0.1
    found = extract_adapter(tuned, base, vocabulary, tmp_path / "adapter", origin=Base("base"), megabytes=1)
    assert found.error < 1e-3
    assert found.embeddings == 0
    fresh, plain = tiny_model(family), Vocabulary(byte_tokenizer())
    apply_adapter(fresh, plain, tmp_path / "adapter")
    torch.testing.assert_close(logits(fresh), logits(tuned), rtol=1e-2, atol=1e-2)


def test_extraction_keeps_to_its_budget_and_reports_what_is_missing(tmp_path: Path) -> None:
    base = tiny_model()
    tuned, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(tuned, vocabulary)
    shaken(tuned, rank=None)
    errors = []
    for kilobytes in (30, 40, 60):
        folder = tmp_path / str(kilobytes)
        found = extract_adapter(tuned, base, vocabulary, folder, origin=Base("base"), megabytes=kilobytes / 1000)
        assert found.bytes <= kilobytes * 1000 + 6000  # and the file's header
        assert found.bytes == (folder / WEIGHTS).stat().st_size
        fresh, plain = tiny_model(), Vocabulary(byte_tokenizer())
        apply_adapter(fresh, plain, folder)
        missing = total = 0.0
        for name, module in tuned.named_modules():
            if isinstance(module, torch.nn.Linear) and name != "lm_head":
                missing += float((fresh.get_submodule(name).weight - module.weight).detach().square().sum())
                total += float((base.get_submodule(name).weight - module.weight).detach().square().sum())
        assert found.error == pytest.approx((missing / total) ** 0.5, abs=2e-3)
        errors.append(found.error)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.4 < errors[0]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_peft_reads_what_is_trained_without_it(tmp_path: Path, base: str, data: str) -> None:
    peft = pytest.importorskip("peft")
    output = str(tmp_path / "out")
    config = SftConfig(
        data=data, output=output, model=base, method="lora", max_steps=4, lora_rank=4, learning_rate=1e-2
    )
    sft.train(config)
    merged = load_model(output, device="cpu").model
    by_peft = peft.AutoPeftModelForCausalLM.from_pretrained(output)
    torch.testing.assert_close(logits(merged), logits(by_peft), rtol=0, atol=1e-4)
    plain = AutoModelForCausalLM.from_pretrained(base)
    plain.resize_token_embeddings(len(AutoTokenizer.from_pretrained(output)))
    torch.testing.assert_close(logits(merged), logits(peft.PeftModel.from_pretrained(plain, output)), rtol=0, atol=1e-4)


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An adapter whose base was named by a path relative to the folder that training ran in."""
    for folder, seed in (("base", 0), ("other", 1)):
        tiny_model(seed=seed).save_pretrained(tmp_path / folder)
        byte_tokenizer().save_pretrained(tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    loaded = load_model("base", device="cpu", tags=True)
    make_adapter(loaded, Path("adapter"), rank=2)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return tmp_path / "adapter"


def test_an_adapter_finds_its_base_from_another_folder(trained: Path) -> None:
    assert base_of(trained).name == str(trained.parent / "base")
    loaded = load_model(str(trained), device="cpu")
    assert loaded.name == "adapter"
    assert loaded.vocabulary.tags is not None
    assert loaded.folder.whole.path == trained.parent / "base"


def test_the_tokenizer_of_an_adapter_is_its_own(trained: Path) -> None:
    template = trained / "chat_template.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}!{% endfor %}")
    vocabulary = load_model(str(trained), device="cpu").vocabulary
    assert vocabulary.encode_chat([{"role": "user", "content": "hi"}]) == vocabulary.encode("hi!")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_page_says_how_peft_reads_it(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("peft")
    page = (Path(__file__).parents[2] / "docs/train.md").read_text("utf-8")
    example = page.partition("## Adapters")[2].partition("```python\n")[2].partition("```")[0]
    trained.rename(trained.parent / "tuned")
    monkeypatch.chdir(trained.parent)
    found: dict[str, Any] = {}
    exec(example, found)
    ours = load_model("tuned", device="cpu")
    torch.testing.assert_close(logits(found["model"]), logits(ours.model), rtol=0, atol=1e-4)
    assert Vocabulary(found["tokenizer"]).tags == ours.vocabulary.tags


def test_a_base_that_has_moved(trained: Path) -> None:
    moved = (trained.parent / "base").rename(trained.parent / "moved")
    with pytest.raises(UnknownModel, match=rf"the adapter in {trained} needs its base model.*/base.*--base"):
        load_model(str(trained), device="cpu")
    at_hand = load_model(str(trained), device="cpu", base=str(moved))
    assert at_hand.folder.whole.path == moved


def test_another_model_than_the_base_is_refused(trained: Path) -> None:
    with pytest.raises(CorruptModel, match=rf"the adapter in {trained} was trained on .*/base.*checksum.*/other have"):
        load_model(str(trained), device="cpu", base=str(trained.parent / "other"))


def test_the_checksum_is_of_the_weights(trained: Path) -> None:
    base = trained.parent / "base"
    model = load_model(str(base), device="cpu").model
    model.save_pretrained(trained.parent / "shards", max_shard_size="20KB")
    assert len(list((trained.parent / "shards").glob("*.safetensors"))) > 1
    assert weights_checksum(trained.parent / "shards") == weights_checksum(base)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[-1, -1] += 1
    model.save_pretrained(trained.parent / "touched")
    assert weights_checksum(trained.parent / "touched") != weights_checksum(base)


def test_an_adapter_over_an_adapter(trained: Path) -> None:
    loaded = load_model(str(trained), device="cpu")
    before = logits(loaded.model)
    adapted = make_adapter(loaded, trained.parent / "second", rank=1, std=0.3)
    again = load_model(str(trained.parent / "second"), device="cpu")
    torch.testing.assert_close(logits(again.model), logits(adapted), rtol=1e-2, atol=2e-2)
    assert not torch.allclose(logits(again.model), before, atol=1e-1)


def test_an_adapter_beside_a_whole_model_is_refused(trained: Path) -> None:
    tiny_model().save_pretrained(trained)
    with pytest.raises(CorruptModel, match="both an adapter and a whole model"):
        load_model(str(trained), device="cpu")


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    tuned, vocabulary = tiny_model("phi3"), Vocabulary(byte_tokenizer())
    add_tags(tuned, vocabulary)
    shaken(tuned, rank=1)
    extract_adapter(tuned, tiny_model("phi3"), vocabulary, tmp_path, origin=Base("base"), megabytes=1)
    with pytest.raises(CorruptModel, match="not one of this model"):
        apply_adapter(tiny_model("llama"), Vocabulary(byte_tokenizer()), tmp_path)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing")
@pytest.mark.parametrize("settings", [{}, {"use_rslora": True}, {"alpha_pattern": {"k_proj": 3}}])
def test_updates_are_as_large_as_pefts(tmp_path: Path, base: str, settings: dict[str, Any]) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    config = LoraConfig(
        r=4,
        lora_alpha=6,
        target_modules=["q_proj", "k_proj"],
        init_lora_weights=False,
        task_type="CAUSAL_LM",
        **settings,
    )
    plain = load_model(base, device="cpu").model
    before = logits(plain)
    adapted = get_peft_model(plain, config)
    adapted.save_pretrained(str(tmp_path))
    (tmp_path / "pasta.json").write_text(json.dumps({"base": base}))
    assert not torch.allclose(logits(adapted), before, atol=0.1)
    again = load_model(str(tmp_path), device="cpu")
    torch.testing.assert_close(logits(again.model), logits(adapted), rtol=1e-4, atol=1e-4)


LAYER = "base_model.model.model.layers.0.self_attn.q_proj"
UPDATE = {f"{LAYER}.lora_A.weight": torch.zeros(2, 32), f"{LAYER}.lora_B.weight": torch.zeros(32, 2)}


@pytest.mark.parametrize(
    ("config", "tensors", "said"),
    [
        ({}, UPDATE, r'adapter_config.json does not say how .* \(expected a number as "lora_alpha"'),
        ({"lora_alpha": "x"}, UPDATE, "does not say how large its updates are"),
        ({"lora_alpha": 1, "alpha_pattern": [1]}, UPDATE, "does not say how large its updates are"),
        ({"lora_alpha": 1}, {"lm_head.weight": torch.zeros(1)}, "has a tensor lm_head.weight, expected names that"),
        ({"lora_alpha": 1}, dict(list(UPDATE.items())[:1]), "has half an update of model.layers.0.self_attn.q_proj"),
        ({"lora_alpha": 1}, dict(list(UPDATE.items())[1:]), "has half an update of model.layers.0.self_attn.q_proj"),
        (
            {"lora_alpha": 1},
            {**UPDATE, f"{LAYER}.lora_A.weight": torch.zeros(3, 32)},
            r"halves do not fit: \(32, 2\) and \(3, 32\)",
        ),
        ({"lora_alpha": 1, "use_dora": True}, UPDATE, r"is of the kind DoRA, expected LORA \(merge it into its base"),
        ({"lora_alpha": 1, "peft_type": "LOHA"}, UPDATE, "is of the kind LOHA, expected LORA"),
    ],
)
def test_what_is_no_lora_is_one_clear_line(
    tmp_path: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor], said: str
) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(ModelError, match=said):
        apply_adapter(tiny_model(), Vocabulary(byte_tokenizer()), tmp_path)


def test_an_adapter_without_weights_and_one_over_itself(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(
        json.dumps({"lora_alpha": 1, "base_model_name_or_path": str(tmp_path)})
    )
    with pytest.raises(CorruptModel, match=f"lacks its adapter's weights: no {WEIGHTS}"):
        load_model(str(tmp_path), device="cpu")
    save_file(UPDATE, tmp_path / WEIGHTS)
    with pytest.raises(CorruptModel, match=r"is named as its own base \(say with --base"):
        load_model(str(tmp_path), device="cpu")


def test_adapters_that_lead_back_to_each_other(tmp_path: Path) -> None:
    one, two, three, top = (tmp_path / name for name in ("one", "two", "three", "top"))
    for folder, under in ((one, two), (two, three), (three, one), (top, one)):
        folder.mkdir()
        (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(under)}))
        save_file(UPDATE, folder / WEIGHTS)

    def loop(over: Path, last: Path) -> str:
        return rf"the adapter in {over} has the one in {last} under it, whose base it is itself \(say with --base"

    for over, last in ((one, three), (two, one), (three, two)):
        with pytest.raises(CorruptModel, match=f"^{loop(over, last)}"):
            load_model(str(over), device="cpu")
    with pytest.raises(CorruptModel, match=f"^{loop(one, three)}"):
        load_model(str(one), device="cpu", base=str(three))
    with pytest.raises(CorruptModel, match=rf"^the adapter in {top} needs its base model: the adapter in {one} has"):
        load_model(str(top), device="cpu")
    (two / "pasta.json").write_text(json.dumps({"base": str(one)}))
    with pytest.raises(CorruptModel, match=f"^{loop(one, two)}"):
        load_model(str(one), device="cpu")


def test_a_damaged_adapter_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"lora_alpha": 1}))
    (tmp_path / WEIGHTS).write_bytes(b"no")
    with pytest.raises(CorruptModel, match=f"{WEIGHTS} is damaged or cut short"):
        apply_adapter(tiny_model(), Vocabulary(byte_tokenizer()), tmp_path)
    with pytest.raises(CorruptModel, match="which model it adapts"):
        base_of(tmp_path)
