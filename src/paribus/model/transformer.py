"""The one transformer."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.batch import Batch, Layout
from paribus.errors import SpecError, UnsupportedError
from paribus.masks import Rule, SameDocument, leaves
from paribus.model.attention import Sight
from paribus.model.block import ExpertCompute, TransformerBlock
from paribus.model.dropout import Draws, dropout
from paribus.model.experts import Load
from paribus.model.feed_forward import activated
from paribus.model.kernels import View, Wanted
from paribus.model.lookup import look_up
from paribus.model.norm import Norm
from paribus.model.positions import Positions
from paribus.spec import Architecture, Latent, Resolved, Stack, resolve


class Output(NamedTuple):
    """Scores of every word at every position, and what each expert layer's router did."""

    logits_BTV: Tensor
    loads: dict[str, Load]


class Hidden(NamedTuple):
    """The last layer's output, not yet words."""

    states_BTD: Tensor
    loads: dict[str, Load]


class TransformerStack(nn.Module):
    """Blocks from the bottom up, with the positions and norms around them."""

    def __init__(self, spec: Resolved, stack: Stack, name: str, kernel: Wanted, compute: ExpertCompute):
        super().__init__()
        self.spec, self.stack, self.name = spec, stack, name
        self.kernel: Wanted = kernel
        self.compute: ExpertCompute = compute
        self.positions = Positions(stack, spec.max_length, spec.d_model)
        self.embedding_norm = Norm(spec.d_model, spec.norm) if spec.embedding.norm else None
        own_blocks = name == "stack" or not spec.shared
        self.layers = nn.ModuleList(TransformerBlock(spec, block) for block in stack.layers if own_blocks)
        self.final_norm = Norm(spec.d_model, spec.norm) if spec.placement != "post" else None

    def forward(
        self,
        embedded_BTD: Tensor,
        layout: Layout,
        blocks: nn.ModuleList,
        source: tuple[Tensor, Layout] | None,
        draws: Draws | None,
    ) -> Hidden:
        hidden = self._entered(embedded_BTD, layout, draws)
        sights, cross = self._sights(layout, hidden), self._cross_sights(layout, source, hidden)
        loads: dict[str, Load] = {}
        for number, (spec, block) in enumerate(zip(self.stack.layers, blocks, strict=True)):
            place = f"{self.name}.layers.{number}"
            crossed = None if spec.cross is None else cross[spec.cross]
            states = None if source is None else source[0]
            hidden, load = block(hidden, sights[spec.mask], crossed, states, draws, place, self.compute)
            if load is not None:
                loads[place] = load
        return Hidden(hidden if self.final_norm is None else self.final_norm(hidden), loads)

    def _entered(self, embedded_BTD: Tensor, layout: Layout, draws: Draws | None) -> Tensor:
        added = self.positions.added(layout, self.spec.d_model, embedded_BTD)
        hidden = embedded_BTD if added is None else embedded_BTD + added
        hidden = hidden if self.embedding_norm is None else self.embedding_norm(hidden)
        return dropout(_narrowed(hidden), self.spec.dropout, draws, f"{self.name}.embedding")

    def _sights(self, layout: Layout, like: Tensor) -> dict[Rule, Sight]:
        """One for each rule of the stack, shared by the layers that have it."""
        attention = self.stack.layers[0].attention
        width = attention.d_rotary if isinstance(attention, Latent) else attention.d_head
        assert width is not None
        turn = self.positions.turn(layout, width, like.device)
        bias = self.positions.bias(layout, layout, like.device)
        rules = dict.fromkeys(block.mask for block in self.stack.layers)
        views = {rule: View.of(rule, layout, layout, attention.n_heads, like.device) for rule in rules}
        return {rule: Sight(view, turn, bias, self.kernel) for rule, view in views.items()}

    def _cross_sights(self, layout: Layout, source: tuple[Tensor, Layout] | None, like: Tensor) -> dict[Rule, Sight]:
        if source is None:
            return {}
        n_heads = self.stack.layers[0].attention.n_heads
        rules = dict.fromkeys(block.cross for block in self.stack.layers if block.cross is not None)
        views = {rule: View.of(rule, layout, source[1], n_heads, like.device) for rule in rules}
        return {rule: Sight(view, None, None, self.kernel) for rule, view in views.items()}


def _narrowed(hidden: Tensor) -> Tensor:
    """In autocast's precision where it is on: the stream between blocks is the most there is to read and write."""
    kind = hidden.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return hidden
    return hidden.to(torch.get_autocast_dtype(kind))


class WordHead(nn.Module):
    """From states to scores of words; a tied head borrows the embedding's table."""

    def __init__(self, spec: Resolved):
        super().__init__()
        self.spec = spec.head
        self.scale = float(spec.head.scale)
        transformed = spec.head.transform is not None
        self.transform = nn.Linear(spec.d_model, spec.d_model) if transformed else None
        self.norm = Norm(spec.d_model, spec.norm) if transformed else None
        self.weight: nn.Parameter | None
        self.bias: nn.Parameter | None
        table = None if spec.head.tied else nn.Parameter(torch.empty(spec.n_vocab, spec.d_model))
        self.register_parameter("weight", table)
        self.register_parameter("bias", nn.Parameter(torch.empty(spec.n_vocab)) if spec.head.bias else None)

    def forward(self, states_BTD: Tensor, embedding_VD: Tensor) -> Tensor:
        return F.linear(self.readied(states_BTD), embedding_VD if self.weight is None else self.weight, self.bias)

    def readied(self, states_BTD: Tensor) -> Tensor:
        """The states as the table of words meets them."""
        if self.transform is not None and self.norm is not None and self.spec.transform is not None:
            states_BTD = self.norm(activated(self.transform(states_BTD), self.spec.transform))
        return states_BTD if self.scale == 1.0 else states_BTD * self.scale


class Transformer(nn.Module):
    """Any architecture paribus knows, built from its spec; a forward pass changes no state.

    `kernel` and `compute` choose how attention and experts are computed, never what.
    """

    def __init__(self, architecture: Architecture, kernel: Wanted = "auto", compute: ExpertCompute = "grouped"):
        super().__init__()
        self.architecture, self.spec = architecture, resolve(architecture)
        spec = self.spec
        masks = [rule for stack in spec.stacks for rule in stack.masks]
        self.keeps_documents = any(SameDocument() in leaves(rule) for rule in masks)
        self.embedding = nn.Embedding(spec.n_vocab, spec.d_model)
        n_segments = spec.embedding.n_segments
        self.segments = nn.Embedding(n_segments, spec.d_model) if n_segments else None
        self.stack = TransformerStack(spec, spec.stack, "stack", kernel, compute)
        encoder = None if spec.encoder is None else TransformerStack(spec, spec.encoder, "encoder", kernel, compute)
        self.encoder = encoder
        self.head = WordHead(spec)

    def forward(self, batch: Batch | Tensor, draws: Draws | None = None) -> Output:
        """Logits for every position; dropout is drawn where `draws` are given, and off without."""
        hidden = self.hidden(batch, draws)
        return Output(self.words(hidden.states_BTD), hidden.loads)

    def hidden(self, batch: Batch | Tensor, draws: Draws | None = None) -> Hidden:
        """Everything below the words."""
        batch = Batch.of(batch) if isinstance(batch, Tensor) else batch
        self._check(batch)
        if draws is not None and draws.rows_B is None:
            draws = replace(draws, rows_B=batch.rows_B)
        source, loads = None, {}
        if self.encoder is not None and batch.source is not None:
            blocks = self.stack.layers if self.spec.shared else self.encoder.layers
            encoded = self.encoder(self._embedded(batch.source), batch.source.layout, blocks, None, draws)
            source, loads = (encoded.states_BTD, batch.source.layout), encoded.loads
        out = self.stack(self._embedded(batch), batch.layout, self.stack.layers, source, draws)
        return Hidden(out.states_BTD, {**loads, **out.loads})

    @property
    def places(self) -> tuple[str, ...]:
        """Where dropout is drawn: each embedding, and each branch of each layer."""
        stacks = {"stack": self.spec.stack, "encoder": self.spec.encoder}
        found: list[str] = []
        for name, stack in stacks.items():
            layers = () if stack is None else stack.layers
            found += [f"{name}.embedding"] if layers else []
            for number in range(len(layers)):
                found += [f"{name}.layers.{number}.{branch}" for branch in ("attention", "cross", "feed_forward")]
        return tuple(found)

    def words(self, states_BTD: Tensor) -> Tensor:
        """The score of every word."""
        return self.head(states_BTD, self.embedding.weight)

    def words_from(self, states_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """What words are made of: readied states, the table [V, D] and the bias; a loss may take them in chunks."""
        table = self.embedding.weight if self.head.weight is None else self.head.weight
        return self.head.readied(states_BTD), table, self.head.bias

    def _embedded(self, batch: Batch) -> Tensor:
        scale = float(self.spec.embedding.scale)
        embedded = look_up(batch.tokens_BT, self.embedding.weight)
        embedded = embedded if scale == 1.0 else embedded * scale
        if self.segments is None:
            return embedded
        segments = torch.zeros_like(batch.tokens_BT) if batch.segments_BT is None else batch.segments_BT
        return embedded + look_up(segments, self.segments.weight)

    def _check(self, batch: Batch) -> None:
        if (batch.source is None) != (self.encoder is None):
            raise SpecError(
                "batch.source is missing, but the model has an encoder; give Batch.of(tokens, source=…)"
                if batch.source is None
                else "batch.source is given, but the model has no encoder; leave it out"
            )
        given = [part for part in (batch, batch.source) if part is not None and part.layout.documents_BT is not None]
        if given and not self.keeps_documents:
            raise SpecError(
                f"batch has documents_BT, but the mask {self.architecture.mask} does not keep documents apart; "
                f"add '& same_document' to it, or leave them out"
            )
        if batch.source is not None and (batch.layout.documents_BT is None) != (
            batch.source.layout.documents_BT is None
        ):
            raise SpecError("batch and batch.source must both have documents_BT, or neither; one of them has none")
        for part in (batch, batch.source):
            if part is None:
                continue
            end = part.layout.start + part.layout.length
            if end > self.spec.max_length:
                raise UnsupportedError(
                    f"the batch reaches position {end}, past max_length {self.spec.max_length}; cut it there"
                )
            if part.segments_BT is not None and self.segments is None:
                raise SpecError("batch.segments_BT is given, but embedding.n_segments is 0; leave it out")
