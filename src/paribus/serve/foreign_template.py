"""Chat templates of imported models: programs that others wrote, so they run in a sandbox, in a
process of their own, for a second and in 256 MiB.

What a person or a model says never becomes part of the program's tokens: the template is rendered
with a mark in the place of each content, and each content is encoded by itself. A template that
changes contents in other ways than stripping them gets the text itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paribus.corpus import Tokenizer
from paribus.corpus.conversations import Turn
from paribus.errors import RecordError, SpecError
from paribus.files import MAX_TOKENIZER_BYTES, read_text
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.model.weights import read_json
from paribus.objectives.framing import Ids
from paribus.record.file_names import CHAT_TEMPLATE_FILE, TOKENIZER_CONFIG_FILE
from paribus.serve.template_process import TemplateProcess

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")


@dataclass(frozen=True, eq=False)
class ForeignTemplate:
    """The chat template that an imported model brought along, and the tokens it can name."""

    source: str
    named_tokens: Mapping[str, str]
    tokenizer: Tokenizer
    process: TemplateProcess = field(default_factory=TemplateProcess)

    def tokens(self, turns: Sequence[Turn], contents: Sequence[Ids | None]) -> list[int]:
        """Turns up to where the assistant speaks; of some, the contents are tokens already."""
        text = self.render(turns)
        marks = [f"mark{secrets.token_hex(8)}" for _ in turns]
        marked = [Turn(turn.role, mark) for turn, mark in zip(turns, marks, strict=True)]
        pieces = _pieces(self.render(marked), marks)
        for strips in (False, True):
            own = [turn.content.strip() if strips else turn.content for turn in turns]
            if pieces is not None and _join(pieces, own) == text:
                return self._piecewise(pieces, own, turns, contents)
        return self._whole(text, turns)

    def render(self, turns: Sequence[Turn]) -> str:
        """The text of some turns; SpecError where the template refuses them, or fails."""
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        values = {**self.named_tokens, "messages": messages, "add_generation_prompt": True}
        return self.process.render(self.source, values)

    def _piecewise(
        self,
        pieces: Sequence[str],
        texts: Sequence[str],
        turns: Sequence[Turn],
        contents: Sequence[Ids | None],
    ) -> list[int]:
        ids = self._program_tokens(pieces[0])
        for text, turn, known, after in zip(texts, turns, contents, pieces[1:], strict=True):
            if known is None or text != turn.content:
                known = tuple(self.tokenizer.encode(text))
            ids += [*known, *self._program_tokens(after)]
        return ids

    def _whole(self, text: str, turns: Sequence[Turn]) -> list[int]:
        """The tokens of a text in which contents cannot be told from the program; SpecError where
        a content could pass for a special token.
        """
        for token in self._special_tokens():
            for place, turn in enumerate(turns):
                if token in turn.content:
                    raise SpecError(
                        f"messages.{place}.content holds {token!r}, a special token of the model,"
                        " and its chat template changes contents; leave it out"
                    )
        return self._program_tokens(text)

    def _program_tokens(self, text: str) -> list[int]:
        """The tokens of what the template itself wrote, in which special tokens are read."""
        specials = self._special_tokens()
        ids: list[int] = []
        while text:
            found = [(text.find(one), -len(one), one) for one in specials if one in text]
            if not found:
                return [*ids, *self.tokenizer.encode(text)]
            place, _, token = min(found)
            if place:
                ids += self.tokenizer.encode(text[:place])
            ids.append(specials[token])
            text = text[place + len(token) :]
        return ids

    def _special_tokens(self) -> dict[str, int]:
        added = self.tokenizer.library.get_added_tokens_decoder()
        return {token.content: number for number, token in added.items() if token.special}


def read_foreign_template(checkpoint: LoadedCheckpoint) -> ForeignTemplate | None:
    """The chat template beside a checkpoint's tokenizer; None where there is none."""
    if checkpoint.tokenizer_file is None:
        return None
    config: Mapping[str, Any] = {}
    if checkpoint.tokenizer_file.with_name(TOKENIZER_CONFIG_FILE).is_file():
        config = read_json(checkpoint.tokenizer_file.with_name(TOKENIZER_CONFIG_FILE))
    path = checkpoint.tokenizer_file.with_name(CHAT_TEMPLATE_FILE)
    if path.is_file():
        source: Any = read_text(path, MAX_TOKENIZER_BYTES)
    else:
        source = _default_template(config.get("chat_template"))
    if source is None:
        return None
    if not isinstance(source, str):
        raise RecordError(
            f"chat_template of {checkpoint.folder} is {type(source).__name__}; make it text"
        )
    return ForeignTemplate(source, _named_tokens(config), checkpoint.tokenizer)


def _default_template(templates: Any) -> Any:
    """The template of a config; of several with names, the one called default."""
    if not isinstance(templates, list):
        return templates
    for one in templates:
        if isinstance(one, dict) and one.get("name") == "default":
            return one.get("template")
    return None


def _named_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    named: dict[str, str] = {}
    for name in _NAMED_TOKENS:
        token = config.get(name)
        content = token.get("content") if isinstance(token, dict) else token
        if isinstance(content, str):
            named[name] = content
    return named


def _pieces(text: str, marks: Sequence[str]) -> list[str] | None:
    """What stands around the marks, each of which must occur once and in order; else None."""
    pieces, rest = [], text
    for mark in marks:
        if text.count(mark) != 1 or mark not in rest:
            return None
        before, _, rest = rest.partition(mark)
        pieces.append(before)
    return [*pieces, rest]


def _join(pieces: Sequence[str], contents: Sequence[str]) -> str:
    texts = [pieces[0]]
    for content, after in zip(contents, pieces[1:], strict=True):
        texts += [content, after]
    return "".join(texts)
