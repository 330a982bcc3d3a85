"""Text to token ids and back.

A tag is always a special token, never a spelling: text that a user sends, or that the model writes out
in ordinary tokens, cannot open a thread.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from pasta.core.detokenizer import TokenBytes
from pasta.core.tags import ASYNC, CLOSE, ONES, PROMISE, SYNC, TENS, Tags, spell_lengths, spell_tags
from pasta.core.template import Template, texts
from pasta.core.unprefixed import adds_prefix, unprefixed
from pasta.core.words import Words
from pasta.errors import PastaError, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

SPACE = "\u2581"  # what SentencePiece writes for a space in its tokens


class Vocabulary:
    """A tokenizer, the tags in it if it has them, and the tokens that end a response.

    Text between tags is encoded as if no tag stood there: as text that goes on, with nothing put in front of it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, eos: Sequence[int] = ()):
        self.tokenizer = tokenizer
        # Encoding switches the tokenizer between text and templates; whoever decodes meanwhile would meet it halfway.
        self._lock = threading.RLock()
        self._template = Template(tokenizer)
        self.octets = TokenBytes(tokenizer, self._lock)
        self.rows: int | None = None  # of the model's table; None: nobody has said
        self.grammars: Any = None  # of values over these tokens, once somebody has asked for them
        ends = set(eos)
        if tokenizer.eos_token_id is not None:
            ends.add(tokenizer.eos_token_id)
        self.eos: frozenset[int] = frozenset(ends)

    @cached_property
    def tags(self) -> Tags | None:
        known = self.tokenizer.get_added_vocab()
        unit = next((unit for unit in (ONES, TENS) if all(tag in known for tag in spell_tags(unit))), None)
        if unit is None:
            return None
        return Tags(
            promise=known[PROMISE],
            lengths=tuple(known[length] for length in spell_lengths(unit)),
            open=known[ASYNC],
            close=known[CLOSE],
            sync=known[SYNC],
        )

    def __len__(self) -> int:
        return len(self.tokenizer)

    @property
    def usable(self) -> int:
        """How many ids a prompt may have: some tokenizers have tokens that their model's table lacks."""
        return len(self) if self.rows is None else min(len(self), self.rows)

    def checked(self, ids: list[int]) -> list[int]:
        """A text's tokens, all of which the model's table has."""
        size = self.usable
        if (most := max(ids, default=0)) >= size:
            spelled = f"{self.decode([most])!r:.40}, token {most} of its tokenizer"
            raise UsageError(f"the model has no {spelled}, expected 0 to {size - 1}", "leave it out")
        return ids

    def add_tags(self, unit: int = TENS) -> int:
        """Add the tags to the tokenizer; returns how many were new. The embeddings are the caller's."""
        added = self.tokenizer.add_tokens(list(spell_tags(unit)), special_tokens=True)
        for known in ("tags", "pieces", "_specials", "words"):  # what was read from the smaller vocabulary
            self.__dict__.pop(known, None)
        self.octets.clear()
        self.grammars = None
        return int(added)

    # -- text to tokens ---------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """Encodes text that goes on: after a tag, or after other text.

        It is encoded as text: a tag or a control token spelled in it stays ordinary characters. `decode` gives it back
        to the letter, but for what the tokenizer's own normalisation changes, such as decomposed accents.
        """
        if self._space is None or self._space not in text:
            return self._encode(text)
        spelled = self.tokenizer.convert_tokens_to_ids([f"<0x{octet:02X}>" for octet in self._space.encode()])
        first, *others = text.split(self._space)
        return self._encode(first) + [token for part in others for token in (*spelled, *self._encode(part))]

    def _encode(self, text: str) -> list[int]:
        if self._unprefixed is not None:
            return list(self._unprefixed.encode(text, add_special_tokens=False).ids)
        return self._encode_start(text)

    def encode_text(self, text: str, *, bos: bool = True) -> list[int]:
        """Encodes a text as the model knows texts to begin: many expect a space, or a token of their own in front."""
        return (self._front if bos else []) + self._encode_start(text)

    @cached_property
    def _front(self) -> list[int]:
        """What the tokenizer itself puts in front of a text."""
        with self._lock:
            bare, whole = (self.tokenizer.encode("a", add_special_tokens=own) for own in (False, True))
        return next((whole[:at] for at in range(len(whole)) if whole[at : at + len(bare)] == bare), [])

    def _encode_start(self, text: str) -> list[int]:
        return self._tokens(text, specials=False)

    def _tokens(self, text: str, *, specials: bool) -> list[int]:
        """The tokenizer's own tokens of a text; `specials`: control tokens that are spelled in it are tokens."""
        with self._lock:
            if self._backend is None:
                ids = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=not specials)
                return list(ids)
            if self.words is not None:
                return self.words.tokens(text, specials=specials)
            return list(self._ask_backend([text], specials)[0])

    def _ask_backend(self, texts: Sequence[str], specials: bool) -> list[list[int]]:
        assert self._backend is not None
        self._backend.encode_special_tokens = not specials
        return [found.ids for found in self._backend.encode_batch_fast(texts, add_special_tokens=False)]

    @cached_property
    def words(self) -> Words | None:
        """The words that the tokenizer knows texts by; None where they cannot be told."""
        return None if self._backend is None else Words.of(self._backend, self._ask_backend)

    @cached_property
    def _backend(self) -> Tokenizer | None:
        """What transformers itself encodes with, asked directly where nothing lies between.

        Its own way there takes as long as encoding a hundred tokens, and notes for each where it stood in the text.
        """
        from transformers import PreTrainedTokenizerFast

        own = type(self.tokenizer)
        if not issubclass(own, PreTrainedTokenizerFast) or any(
            getattr(own, name) is not getattr(PreTrainedTokenizerFast, name)
            for name in ("__call__", "encode", "_encode_plus", "apply_chat_template")
        ):
            return None
        backend: Tokenizer = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        return backend

    @cached_property
    def _unprefixed(self) -> Tokenizer | None:
        """What encodes text that goes on; None: the tokenizer itself, which begins no text with a space."""
        with self._lock:
            return unprefixed(self.tokenizer) if adds_prefix(self.tokenizer) else None

    @cached_property
    def _space(self) -> str | None:
        """SentencePiece's letter for a space, where it would come back as one; its bytes come back as the letter."""
        known = self.tokenizer.get_vocab()
        lost = self.decode(self._encode(SPACE)) == " " and all(f"<0x{octet:02X}>" in known for octet in SPACE.encode())
        return SPACE if lost else None

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Encodes a conversation with the model's own chat template, ready for the answer.

        Where a message spells a special token, its content is encoded apart from the template, so that
        the template's control tokens are tokens and the message's are characters. `tools` are functions that the model
        may call, for templates that show them; `variables` more that the template may know.
        """
        if variables:
            self._template.check(variables, self._specials)
        if self.tokenizer.chat_template is None:
            text = "\n\n".join(message["content"] for message in messages)
            start = self._front if self.tokenizer.bos_token_id is None else [self.tokenizer.bos_token_id]
            return start + self._encode_start(text)
        for message in messages:
            if any(
                self._spells_special(text)
                for key, value in message.items()
                if key != "content"
                for text in texts(value)
            ):
                raise UsageError(f"a message spells a special token outside its content: {dict(message)!r:.80}")
        for tool in tools or ():
            if any(self._spells_special(text) for text in texts(tool)):
                raise UsageError(f"a tool spells a special token: {dict(tool)!r:.80}")
        if not any(self._spells_special(message["content"]) for message in messages):
            return self._apply_and_encode(messages, tools, variables)
        marks = {f"@{uuid.uuid4().hex}@": message for message in messages if self._spells_special(message["content"])}
        mark_of = {id(message): mark for mark, message in marks.items()}
        rendered = self._apply_template(
            [{**message, "content": mark_of.get(id(message), message["content"])} for message in messages],
            tools,
            variables,
            tokenize=False,
        )
        ids: list[int] = []
        parts = re.split(f"({'|'.join(marks)})", rendered)  # some templates put the system message after other messages
        for part in parts:
            marked = marks.get(part)
            ids += self._encode_template(part, begins=not ids) if marked is None else self.encode(marked["content"])
        for mark in marks.keys() - set(parts):
            raise PastaError(
                f"the chat template rewrites the {marks[mark]['role']} message, which spells a special token",
                hint="remove the special token from the message, or pass token ids",
            )
        return ids

    def opening_of_a_call(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any] | None = None,
    ) -> tuple[str, str] | None:
        """What the chat template writes where an answer calls a tool: before its quoted name, and before its arguments.

        None where the template writes no such thing.
        """
        name, argument = (f"a{uuid.uuid4().hex}" for _ in range(2))
        function = {"name": name, "arguments": {argument: 0}}
        call = {"id": "call00000", "type": "function", "function": function}
        try:
            before = self._apply_template(messages, tools, variables, tokenize=False)
            answer = {"role": "assistant", "content": "", "tool_calls": [call]}
            after = self._apply_template([*messages, answer], tools, variables, tokenize=False, prompt=False)
        except UsageError:
            return None
        opening, named, rest = after.removeprefix(before).partition(f'"{name}"')
        between, filled, _ = rest.partition(f'{{"{argument}"')
        return (opening, between) if after.startswith(before) and named and filled else None

    def encode_opening(self, text: str) -> list[int]:
        """Encodes what a template writes in an answer: its control tokens are tokens."""
        return self._encode_template(text, begins=False)

    def closing(self) -> list[int]:
        """What the chat template writes after an answer; nothing where there is no template."""
        if self.tokenizer.chat_template is None:
            return []
        mark = f"a{uuid.uuid4().hex}"
        turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": mark}]
        after = self._apply_template(turn, tokenize=False, prompt=False).rpartition(mark)[2]
        return self._encode_template(after, begins=False)

    def takes(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the chat template has a place for all of these; some have none for a system message."""
        if self.tokenizer.chat_template is None:
            return True
        try:
            self._apply_template(messages, tokenize=False)
        except UsageError:
            return False
        return True

    def _apply_and_encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any] | None,
    ) -> list[int]:
        if self._backend is None:
            return list(self._apply_template(messages, tools, variables, tokenize=True))
        specials = not getattr(self.tokenizer, "split_special_tokens", False)
        return self._tokens(self._apply_template(messages, tools, variables, tokenize=False), specials=specials)

    def _apply_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        *,
        tokenize: bool,
        prompt: bool = True,
    ) -> Any:
        with self._lock:
            out = self._template.render(messages, tools, variables, tokenize=tokenize, prompt=prompt)
        return list(out) if tokenize else out

    def _encode_template(self, text: str, *, begins: bool) -> list[int]:
        """A part of a rendered template, whose control tokens are tokens: its beginning, or what goes on after text."""
        found = [at for special in self._specials if (at := text.find(special)) >= 0]
        first = 0 if begins else min(found, default=len(text))
        with self._lock:
            return self.encode(text[:first]) + self._tokens(text[first:], specials=True)

    def lead(self, prompt: Sequence[int]) -> str:
        """What the tokens of an answer to this prompt begin with, and its text does not: spaces, or nothing.

        Some chat templates write a space between the prompt and the answer, and some tokenizers begin a text with one
        after a control token. It is not in the prompt, since the model writes it with its first word. An answer that
        begins with a tag has none.
        """
        opening, lead = self._opening
        return lead if lead and list(prompt[-len(opening) :]) == opening else ""

    @cached_property
    def _opening(self) -> tuple[list[int], str]:
        """The tokens with which the chat template opens every answer, and its lead."""
        if self.tokenizer.chat_template is None:
            return [], ""
        first, other = ({"role": "user", "content": text} for text in ("?", "Why"))
        try:
            prompt = self._apply_template([first], tokenize=True)
            same = zip(reversed(prompt), reversed(self._apply_template([other], tokenize=True)), strict=False)
            answered = self._apply_template([first, {"role": "assistant", "content": "Yes"}], tokenize=True)
        except UsageError:  # a template of its own kind, which is not asked for answers that are there already
            return [], ""
        opening = [token for token, _ in takewhile(lambda pair: pair[0] == pair[1], same)][::-1]
        after = self.decode(answered[len(prompt) :]) if answered[: len(prompt)] == prompt else ""
        lead, found, _ = after.partition("Yes")
        return opening, lead if found and opening and not lead.strip(" ") else ""

    def _spells_special(self, text: str) -> bool:
        return any(special in text for special in self._specials)

    @cached_property
    def _specials(self) -> tuple[str, ...]:
        """Control tokens. Others that were added, such as Gemma's double line break, are text like any other."""
        added = self.tokenizer.added_tokens_decoder.values()
        return (*(str(token) for token in added if token.special), *self.tokenizer.all_special_tokens)

    # -- tokens to text ---------------------------------------------------------------------------

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ordinary tokens, to the letter."""
        return self.octets.text(ids)

    @cached_property
    def pieces(self) -> list[str]:
        """What each ordinary token writes in the middle of a text; tokens of partial characters give `\\ufffd`."""
        size = self.size
        self.octets.learn(range(size))
        return [self.octets.text([token]) for token in range(size)]

    @property
    def size(self) -> int:
        """How many ids there are, those included that stand for nothing."""
        return max(len(self.tokenizer), 1 + max(self.tokenizer.get_vocab().values(), default=0))
