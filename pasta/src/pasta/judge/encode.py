"""A prompt and an answer as the tokens that a reward model reads, and batches of them by length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Pair = tuple[str, str]  # prompt, answer
PROMPT, ANSWER = "[[the prompt]]", "[[the answer]]"
GAP = "\n[...]\n"  # where a long text lost its middle


class Encoder:
    """Encodes pairs under the tokenizer's chat template; what a text spells is never a control token.

    Half a character, which JSON can spell and no tokenizer takes, is read as a question mark.

    Longer ones lose the middle of the answer, and a long prompt its own middle first: how an answer ends says
    whether it was cut off or runs in circles.
    """

    def __init__(self, tokenizer: Any, max_length: int):
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.frames: list[list[int]] | None = None
        if getattr(tokenizer, "chat_template", None):
            turns = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": ANSWER}]
            text = tokenizer.apply_chat_template(turns, tokenize=False)
            before, _, rest = text.partition(PROMPT)
            between, _, after = rest.partition(ANSWER)
            self.frames = [tokenizer.encode(part, add_special_tokens=False) for part in (before, between, after)]
            self.gap = tokenizer.encode(GAP, add_special_tokens=False)
        self.pad = next(
            (i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if i is not None),
            0,
        )

    def __call__(self, pairs: Sequence[Pair]) -> list[list[int]]:
        if not pairs:
            return []
        sides = zip(*pairs, strict=True)
        prompts, answers = ([text.encode("utf-8", "replace").decode() for text in side] for side in sides)
        if self.frames is None:  # no template: the tokenizer's own way to join two texts
            both = self.tokenizer(prompts, answers, truncation=True, max_length=self.max_length)
            return [list(ids) for ids in both["input_ids"]]
        before, between, after = self.frames
        room = self.max_length - len(before) - len(between) - len(after)
        distinct = sorted(set(prompts))
        short = {
            prompt: self.shorten(ids, room // 2) for prompt, ids in zip(distinct, self._texts(distinct), strict=True)
        }
        out = []
        for prompt, ids in zip(prompts, self._texts(answers), strict=True):
            head = short[prompt]
            out.append([*before, *head, *between, *self.shorten(ids, room - len(head)), *after])
        return out

    def shorten(self, ids: list[int], room: int) -> list[int]:
        """Two thirds from the beginning and one from the end, if it does not fit."""
        if len(ids) <= room:
            return ids
        end = (room - len(self.gap)) // 3
        return [*ids[: room - len(self.gap) - end], *self.gap, *ids[len(ids) - end :]]

    def _texts(self, texts: list[str]) -> list[list[int]]:
        encoded = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
        return [list(ids) for ids in encoded["input_ids"]]


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Indices in batches of near equal length, each of at most `tokens` tokens with its padding."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batch and lengths[batch[0]] * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def padded(sequences: Sequence[list[int]], pad: int, device: Any) -> dict[str, torch.Tensor]:
    """Ids and mask, padded on the right."""
    import torch

    width = max(map(len, sequences))
    ids = torch.tensor([ids + [pad] * (width - len(ids)) for ids in sequences])
    mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in sequences])
    if ids.device != torch.device(device):
        ids, mask = ids.pin_memory().to(device, non_blocking=True), mask.pin_memory().to(device, non_blocking=True)
    return {"input_ids": ids, "attention_mask": mask}
