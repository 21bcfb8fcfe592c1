"""Rows in which answers are read and said together, over blocks that were read before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.generate.block_keys import BLOCK
from paribus.generate.block_pool import BlockPool, KeysByLayer
from paribus.generate.model_steps import joined_weights
from paribus.generate.row_steps import RowSteps
from paribus.generate.running_answer import RunningAnswer
from paribus.masks import needed_later
from paribus.model import Transformer
from paribus.model.cache import Keys
from paribus.model.rows_pass import RowsPass
from paribus.model.text_rows import TextRows
from paribus.objectives.framing import Ids


class AnswerRows:
    """Answers in the rows of a model's buffers. What they read is saved block by block."""

    def __init__(self, model: Transformer, pool: BlockPool):
        self.model, self.pool = model, pool
        self.answers: list[RunningAnswer] = []  # by row
        self._device = model.embedding.weight.device
        self._rows = TextRows(model.spec.stack.masks, self._device, weights=joined_weights(model))
        self._steps = RowSteps(model, self._rows)

    def n_left(self, row: int) -> int:
        """How many tokens of the text in a row are not read yet."""
        return len(self.answers[row].text) - self._rows.length(row)

    def join(self, answer: RunningAnswer) -> None:
        """Give an answer a row, with what is known of its text and its source."""
        row = self._rows.join(answer.prefix)
        self.answers.append(answer)
        try:
            n_known = self._fill(row, answer)
            if answer.sources:
                self._join_sources(answer, n_known)
                self._show_sources(row)
            else:
                n_known = min(n_known, len(answer.handle.request.inputs))
                answer.handle.n_cached_tokens = n_known
                answer.handle.n_read_tokens = len(answer.handle.request.inputs) - n_known
        except Exception:
            self.leave(answer)
            raise

    def leave(self, answer: RunningAnswer) -> None:
        """Take an answer's row from it. Its blocks stay, the first as the most recent."""
        row = self._row(answer)
        self._rows.leave(row)
        last = self.answers.pop()
        if last is not answer:
            self.answers[row] = last
        self.pool.touch([*reversed(answer.chain.names), *answer.source_names])

    def read(self, first: int, n_tokens: Sequence[int]) -> Tensor:
        """Read so many more tokens of the answers from row `first` on: the logits of what follows
        the last one of each, [B, V], in float32.
        """
        rows = range(first, first + len(n_tokens))
        for row in rows:
            self._show_sources(row)
        if len(rows) == len(self.answers) and max(n_tokens) == min(n_tokens) == 1:
            logits_BV = self._recorded_logits()
            if logits_BV is not None:
                return logits_BV
        tokens_BT = torch.zeros(len(rows), max(n_tokens), dtype=torch.int64)
        for place, (row, n_own) in enumerate(zip(rows, n_tokens, strict=True)):
            start = self._rows.length(row)
            own = self.answers[row].text[start : start + n_own]
            tokens_BT[place, :n_own] = torch.tensor(own, dtype=torch.int64)
        rows_pass = RowsPass(self._rows, rows, n_tokens)
        states_BTD = self.model.read_rows(tokens_BT.to(self._device), rows_pass)
        for row in rows:
            self._save(row)
        last_B = torch.tensor(n_tokens, device=self._device).clamp(min=1) - 1
        states_BD = states_BTD[torch.arange(len(rows), device=self._device), last_B]
        return self.model.logits(states_BD, self._rows.weights).float()

    def _recorded_logits(self) -> Tensor | None:
        """The logits of what follows one more token of every answer, by a recorded step; None where
        there is none.
        """
        tokens = []
        for row, answer in enumerate(self.answers):
            tokens.append(answer.text[self._rows.length(row)])
        logits_BV = self._steps.logits(tokens)
        if logits_BV is None:
            return None
        for row in range(len(self.answers)):
            self._save(row)
        return logits_BV.float()

    def _row(self, answer: RunningAnswer) -> int:
        for row, one in enumerate(self.answers):
            if one is answer:
                return row
        raise AssertionError("an answer without a row")

    def _fill(self, row: int, answer: RunningAnswer) -> int:
        """Put known blocks into an empty row: how many tokens need not be read."""
        names = answer.chain.names
        n_blocks, used = self._known_blocks(answer)
        if not n_blocks:
            return 0
        blocks = []
        for number in used:
            block = self.pool.find(names[number])
            assert block is not None
            blocks.append(block)
        self.pool.touch(names[number] for number in reversed(used))
        places = (BLOCK * np.array(used, np.int64)[:, None] + np.arange(BLOCK)).ravel()
        self._rows.fill(row, places, BLOCK * n_blocks, _join_blocks(blocks))
        return BLOCK * n_blocks

    def _known_blocks(self, answer: RunningAnswer) -> tuple[int, list[int]]:
        """After how many blocks reading may begin, and those of them that a later token sees. All
        of these are there. The last token is always read.
        """
        names = answer.chain.names
        is_there = [name in self.pool for name in names]
        for n_blocks in range((answer.n_context - 1) // BLOCK, 0, -1):
            if not is_there[n_blocks - 1]:
                continue
            used = self._needed_blocks(n_blocks, answer.prefix)
            if all(is_there[number] for number in used):
                return n_blocks, used
        return 0, []

    def _needed_blocks(self, n_blocks: int, prefix: int) -> list[int]:
        places, n_tokens = np.arange(BLOCK * n_blocks), BLOCK * n_blocks
        if n_tokens < prefix:  # the rest of a two-way prefix may see all of it
            return list(range(n_blocks))
        is_needed = np.zeros(n_tokens, bool)
        for rule in self._rows.slots:
            is_needed |= needed_later(rule, places, n_tokens, prefix).any(0)
        return np.flatnonzero(is_needed.reshape(-1, BLOCK).any(1)).tolist()

    def _save(self, row: int) -> None:
        """Keep the blocks that a row has filled."""
        answer, length = self.answers[row], self._rows.length(row)
        n_saved = self._rows.n_saved(row) // BLOCK
        if length < BLOCK * (n_saved + 1):
            return
        answer.chain.extend(answer.text)
        for number in range(n_saved, length // BLOCK):
            name = answer.chain.names[number]
            if self.pool.budget_bytes and name not in self.pool:
                keys = self._rows.keys(row, BLOCK * number, BLOCK * (number + 1))
                self.pool.put(name, dict(enumerate(keys)))
        self._rows.mark_saved(row, length // BLOCK * BLOCK)

    def _join_sources(self, answer: RunningAnswer, n_known: int) -> None:
        """The keys of each source: of the same source before, or read whole. What is known of the
        text is counted, without the tokens that begin its answers.
        """
        n_cached = max(n_known - answer.sources_at(n_known - 1), 0)
        for source, name in zip(answer.sources, answer.source_names, strict=True):
            keys = self.pool.find(name)
            if keys is None:
                keys = self._read_source(source)
                self.pool.put(name, keys)
            else:
                n_cached += len(source)
            answer.source_keys.append(keys)
        answer.handle.n_cached_tokens = n_cached
        answer.handle.n_read_tokens = len(answer.handle.request.inputs) - n_cached

    def _read_source(self, source: Ids) -> KeysByLayer:
        batch = Batch.of(torch.tensor([source], device=self._device), prefix=len(source))
        read = self.model.read_source(batch, self._rows.weights)
        keys = {}
        for layer, own in read.layers.items():
            keys[layer] = tuple(tensor[0].clone() for tensor in own)
        return keys

    def _show_sources(self, row: int) -> None:
        """Let a row see the sources that its next token sees."""
        answer = self.answers[row]
        n_seen = answer.sources_at(self._rows.length(row))
        if n_seen == answer.n_sources_seen:
            return
        answer.n_sources_seen = n_seen
        layers = _join_blocks(answer.source_keys[:n_seen])
        self._rows.set_source(row, dict(zip(sorted(answer.source_keys[0]), layers, strict=True)))


def _join_blocks(blocks: Sequence[KeysByLayer]) -> list[Keys]:
    """The keys of several blocks or sources, layer by layer."""
    layers: list[Keys] = []
    if not blocks:
        return layers
    for layer in sorted(blocks[0]):
        parts = [block[layer] for block in blocks]
        layers.append(tuple(torch.cat(each, 1) for each in zip(*parts, strict=True)))
    return layers
