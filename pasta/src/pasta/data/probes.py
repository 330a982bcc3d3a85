"""Measures what a piece of an answer loses when earlier pieces are hidden from it.

A `Probe` asks: how well does the model foresee units `first` to `last`, written as one block, when all it sees
is what stands before unit `start`? The answer is laid out once, and each probe is a child that the segment
table forks off before `start`: one forward pass under the layout's mask answers many probes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pasta.core.layout import IGNORE, Layout
from pasta.core.segments import SegmentTable
from pasta.data.pieces import Kind
from pasta.data.units import Answer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class Hiding(StrEnum):
    """How a hidden unit is hidden from a model that does not know the tags yet."""

    omit = "omit"  # as if it had never been written: the text closes up, and a list's numbers too
    gap = "gap"  # left out, but its positions stay reserved
    topic = "topic"  # in its place stands its topic in brackets


@dataclass(frozen=True, slots=True)
class Probe:
    """Units `first` to `last` as one block of a run of siblings that begins at unit `start`."""

    start: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Sheet:
    """A layout of one answer with some of its probes, and where the losses of each unit are to be found."""

    answer: int  # its number in the batch
    layout: Layout
    scored: tuple[tuple[Probe | None, int, int, int], ...]  # probe (None: nothing hidden), unit, from, to


Losses = dict[tuple[int, Probe | None, int], float]  # by answer, probe and unit: nats, summed over its tokens


def lay_out_probes(number: int, answer: Answer, probes: Sequence[Probe], hiding: Hiding) -> Sheet:
    """The answer followed by its probes."""
    table = SegmentTable()
    main = table.root()
    ids: list[int] = []
    positions: list[int] = []
    segments: list[int] = []
    targets: list[int] = []
    scored: list[tuple[Probe | None, int, int, int]] = []

    def put(tokens: Sequence[int], position: int, segment: int, score: bool) -> int:
        count = len(tokens)
        if score and count:
            targets[-1:] = tokens
            targets.append(IGNORE)
        else:
            targets.extend([IGNORE] * count)
        ids.extend(tokens)
        positions.extend(range(position, position + count))
        segments.extend([segment] * count)
        return position + count

    # Probes of a run see what stands before the gap of its first unit, but for one token, which each of them
    # reads again: a block's first token is foreseen by the token before it, and that one must be its own.
    starts = {probe.start for probe in probes}
    children: dict[int, list[int]] = {start: [] for start in starts}
    base: list[tuple[int, ...]] = [(*unit.gap, *unit.ids) for unit in answer.units]
    begin = list(accumulate((len(tokens) for tokens in base), initial=len(answer.prompt)))
    cuts = {begin[start] - 1: start for start in starts}
    flat = [*answer.prompt, *(token for tokens in base for token in tokens)]
    at = 0
    for index in sorted(cuts):
        at = put(flat[at:index], at, main, False)
        start = cuts[index]
        before, wanted = main, 1 + sum(probe.start == start for probe in probes)
        while len(children[start]) < wanted:  # both ends of a fork see what was before it, and not each other
            children[start] += table.fork(before)
        main = children[start].pop()
    put(flat[at:], at, main, False)
    for number_of_unit, unit in enumerate(answer.units):
        first = begin[number_of_unit] + len(unit.gap)
        targets[first - 1 : first - 1 + unit.length] = unit.ids
        scored.append((None, number_of_unit, first - 1, first - 1 + unit.length))

    for probe in probes:
        segment = children[probe.start].pop()
        anchor = begin[probe.start] - 1
        position = put((flat[anchor],), anchor, segment, False)
        position = put(tuple(_context(answer, probe, hiding)), position, segment, False)
        if hiding is Hiding.gap:
            position = begin[probe.first] + len(answer.units[probe.first].gap)
        for index in range(probe.first, probe.last + 1):
            unit = answer.units[index]
            if index > probe.first:
                position = put(unit.gap, position, segment, False)
            scored.append((probe, index, len(ids) - 1, len(ids) - 1 + unit.length))
            position = put(unit.ids, position, segment, True)
    layout = Layout(tuple(ids), tuple(positions), tuple(segments), tuple(targets), tuple(table.sees))
    return Sheet(number, layout, tuple(scored))


def _context(answer: Answer, probe: Probe, hiding: Hiding) -> Iterator[int]:
    """What the parent writes from `start` on, up to the block: text that is no block, gaps, perhaps topics."""
    units = answer.units
    if probe.first == probe.start:
        yield from units[probe.start].gap
        return
    line_break: tuple[int, ...] = ()  # the last gap with a newline among those left out
    for unit in units[probe.start : probe.first]:
        if "\n" in unit.gap_text:
            line_break = unit.gap
        if hiding is Hiding.topic:
            yield from unit.gap
            yield from unit.hint if unit.is_block else unit.ids
        elif not unit.is_block:
            yield from unit.gap or line_break
            yield from unit.ids
            line_break = ()
    own = units[probe.first]
    if hiding is Hiding.topic:
        yield from own.gap
    elif own.piece.kind is Kind.ITEM:
        # Without its siblings it is the first of its list, and gets the first one's number.
        alike = (unit for unit in units[probe.start : probe.first] if unit.piece.region == own.piece.region)
        yield from next((unit for unit in alike if unit.is_block), own).gap
    else:
        yield from own.gap if "\n" in own.gap_text or not line_break else line_break


def sheets(number: int, answer: Answer, probes: Sequence[Probe], hiding: Hiding, size: int) -> Iterator[Sheet]:
    """The probes of an answer on sheets of about `size` tokens; each repeats the answer itself."""
    room = max(size - len(answer.prompt) - answer.length, size // 4)
    group: list[Probe] = []
    used = 0
    for probe in probes:
        need = 1 + sum(1 for _ in _context(answer, probe, hiding))
        need += sum(len(unit.gap) + unit.length for unit in answer.units[probe.first : probe.last + 1])
        if group and used + need > room:
            yield lay_out_probes(number, answer, group, hiding)
            group, used = [], 0
        group.append(probe)
        used += need
    yield lay_out_probes(number, answer, group, hiding)


class Scorer:
    """Runs the model over sheets, many at once."""

    def __init__(self, model: PreTrainedModel, *, batch_tokens: int | None = None, sheet_tokens: int = 1024) -> None:
        self.model = model
        on_cpu = model.device.type == "cpu"
        self.batch_tokens = batch_tokens or (4_096 if on_cpu else 65_536)
        self.sheet_tokens = sheet_tokens
        self.tokens = 0  # run so far, padding not counted

    def score(self, asked: Sequence[tuple[Answer, Sequence[Probe]]], hiding: Hiding) -> Losses:
        """The losses of every unit as it stands, and under each of its answer's probes."""
        made = [
            sheet
            for number, (answer, probes) in enumerate(asked)
            for sheet in sheets(number, answer, probes, hiding, self.sheet_tokens)
        ]
        made.sort(key=lambda sheet: len(sheet.layout.ids), reverse=True)
        self.tokens += sum(len(sheet.layout.ids) for sheet in made)
        losses: Losses = {}
        at = 0
        while at < len(made):
            rows = max(1, self.batch_tokens // len(made[at].layout.ids))
            group = made[at : at + rows]
            for sheet, nats in zip(group, self._run([sheet.layout for sheet in group]), strict=True):
                total = [0.0, *accumulate(nats)]
                for probe, unit, start, end in sheet.scored:
                    losses[sheet.answer, probe, unit] = total[end] - total[start]
            at += len(group)
        return losses

    def _run(self, layouts: Sequence[Layout]) -> list[list[float]]:
        """Of each layout, the loss at every token; 0 where it predicts nothing."""
        import torch

        from pasta.data.batch import collate, model_inputs

        with torch.inference_mode():
            batch = {name: tensor.to(self.model.device) for name, tensor in collate([[one] for one in layouts]).items()}
            hidden = self.model.base_model(**model_inputs(batch)).last_hidden_state
            labels = batch["labels"]
            places = labels.ne(IGNORE)
            nats = torch.zeros(labels.shape, dtype=torch.float32, device=labels.device)
            nats[places] = _cross_entropy(self.model, hidden[places], labels[places])
            rows = nats.cpu().tolist()
        return [row[: len(layout.ids)] for row, layout in zip(rows, layouts, strict=True)]


def _cross_entropy(model: PreTrainedModel, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The losses, without ever holding the logits of a whole batch."""
    import torch

    head: Any = model.get_output_embeddings()
    cap = getattr(model.config, "final_logit_softcapping", None)
    out = []
    for rows, wanted in zip(hidden.split(8_192), labels.split(8_192), strict=True):
        logits = head(rows).float()
        if cap is not None:
            logits = cap * torch.tanh(logits / cap)
        out.append(torch.nn.functional.cross_entropy(logits, wanted, reduction="none"))
    return torch.cat(out)
