"""What experts are chosen for, layer by layer: load, domains, tokens, repeats, co-activation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.generate import TextDecoder
from paribus.model.observed_places import places_of
from paribus.probe import expert_counts as counts
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.spec import Dense, ResolvedArchitecture
from paribus.spec.probe_variants import OF_DOMAINS, OF_TOKENS
from paribus.spec.probes import ExpertsProbe
from paribus.watcher import Watcher

AT_ONCE = 16  # texts: what a batch is here
CHOICES = ".expert_choice"


def require_experts(spec: ResolvedArchitecture) -> None:
    """UnsupportedError where no layer has a router."""
    if not any(name.endswith(CHOICES) for name in places_of(spec)):
        raise UnsupportedError(
            "the probe 'experts' looks at routers, but this architecture has none; use it with one"
            " whose feed_forward.kind is 'experts'"
        )


def probe_experts(
    subject: ProbedModel, texts: ProbeTexts, spec: ExpertsProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """How often each expert is chosen, by whom, and beside which others."""
    require_experts(subject.spec)
    observer = _choices(subject, texts, watcher)
    batch = subject.batch(texts.tokens_BT)
    for (stack, layer), batches in observer.batches.items():
        n_experts = _n_experts(subject.spec, stack, layer)
        yield from layer_rows(batches, n_experts, texts, stack, layer)
        own = batch.source if stack == "encoder" else batch
        assert own is not None
        by_token = counts.counts_by_group(
            torch.cat(batches), own.tokens_BT.cpu(), n_experts, subject.spec.n_vocab
        )
        firsts = counts.counts_by_group(
            torch.cat(batches)[..., :1], own.tokens_BT.cpu(), n_experts, subject.spec.n_vocab
        )
        row = partial(ProbeRow, probe="experts", n=own.tokens_BT.numel(), stack=stack, layer=layer)
        yield from _information_rows(firsts, OF_TOKENS, row)
        for row in _token_rows(subject, by_token, batches[0].shape[-1], spec.n_tokens):
            yield replace(row, stack=stack, layer=layer)
    yield from _saturation_rows(subject, texts, observer, watcher)


def n_texts_read(subject: ProbedModel, texts: ProbeTexts) -> int:
    """How many texts are read in all: once by each kept checkpoint."""
    return len(texts.texts) * (1 + len(subject.earlier_checkpoints))


def _choices(subject: ProbedModel, texts: ProbeTexts, watcher: Watcher) -> _Choices:
    """The experts of every token of the texts."""
    observer = _Choices()
    for chunk in texts.chunks(AT_ONCE):
        subject.show(chunk.tokens_BT, observer)
        watcher.advance(len(chunk.texts))
    return observer


def _saturation_rows(
    subject: ProbedModel, texts: ProbeTexts, last: _Choices, watcher: Watcher
) -> Iterator[ProbeRow]:
    """How many of a token's experts each earlier checkpoint chose already, over its steps; nothing
    where a run keeps no other.
    """
    for checkpoint in subject.earlier_checkpoints:
        earlier = _choices(subject.at_checkpoint(checkpoint), texts, watcher)
        for (stack, layer), batches in last.batches.items():
            choices_BTK, last_BTK = torch.cat(earlier.batches[stack, layer]), torch.cat(batches)
            row = partial(
                ProbeRow,
                probe="experts",
                n=last_BTK.shape[0] * last_BTK.shape[1],
                stack=stack,
                layer=layer,
                x=checkpoint.step + 1,
                x_name="step",
            )
            n_experts = _n_experts(subject.spec, stack, layer)
            chance = counts.saturation_chance(choices_BTK, last_BTK, n_experts)
            yield row(quantity="saturation", value=counts.saturation(choices_BTK, last_BTK))
            yield row(quantity="saturation, by chance", value=chance)


def layer_rows(
    batches: list[Tensor], n_experts: int, texts: ProbeTexts, stack: str, layer: int
) -> Iterator[ProbeRow]:
    """What one layer's router did. `batches` are [texts, tokens, active experts] each."""
    choices_BTK = torch.cat(batches)
    n_tokens = choices_BTK.shape[0] * choices_BTK.shape[1]
    row = partial(ProbeRow, probe="experts", n=n_tokens, stack=stack, layer=layer)
    for expert, load in enumerate(counts.expert_load(choices_BTK, n_experts).tolist()):
        yield row(quantity="load", value=load, x=expert, x_name="expert")
    found = {
        "MaxVio over the whole text": counts.max_violation(choices_BTK, n_experts),
        "MaxVio, mean over batches": counts.mean_batch_violation(batches, n_experts),
        "first expert stays": counts.first_expert_repeats(choices_BTK),
        "first expert stays, by chance": counts.first_expert_chance(choices_BTK, n_experts),
        "an expert stays": counts.any_expert_repeats(choices_BTK),
        "an expert stays, by chance": counts.any_expert_chance(choices_BTK, n_experts),
    }
    for quantity, value in found.items():
        yield row(quantity=quantity, value=value)
    yield from _domain_rows(choices_BTK, n_experts, texts, row)
    together_NN = counts.co_activation(choices_BTK, n_experts)
    for first, shares in enumerate(together_NN.tolist()):
        for second, share in enumerate(shares):
            if second != first:
                name = f"beside expert {second}"
                yield row(
                    quantity="co-activation", value=share, variant=name, x=first, x_name="expert"
                )


def _domain_rows(
    choices_BTK: Tensor, n_experts: int, texts: ProbeTexts, row: partial[ProbeRow]
) -> Iterator[ProbeRow]:
    """The share of each domain's tokens that choose each expert."""
    domains, n_active = texts.domains, choices_BTK.shape[-1]
    domains_B = torch.tensor([domains.index(text.domain) for text in texts.texts])
    groups_BT = domains_B[:, None].expand(choices_BTK.shape[:2])
    by_domain = counts.counts_by_group(choices_BTK, groups_BT, n_experts, len(domains))
    if len(domains) > 1:
        yield from _domain_information_rows(choices_BTK[..., :1], domains_B, n_experts, row)
    shares = counts.shares_by_group(by_domain, n_active)
    for domain, own in zip(domains, shares.tolist(), strict=True):
        for expert, share in enumerate(own):
            yield row(
                quantity="share of tokens", value=share, variant=domain, x=expert, x_name="expert"
            )


def _domain_information_rows(
    firsts_BT1: Tensor, domains_B: Tensor, n_experts: int, row: partial[ProbeRow]
) -> Iterator[ProbeRow]:
    """How much the domain of a text tells about the first expert of its tokens."""
    n_texts = len(firsts_BT1)
    texts_BT = torch.arange(n_texts)[:, None].expand(firsts_BT1.shape[:2])
    counts_BN = counts.counts_by_group(firsts_BT1, texts_BT, n_experts, n_texts)
    told, _ = counts.information(counts.sum_by_group(counts_BN, domains_B))
    if math.isnan(told):
        return
    yield row(quantity=OF_DOMAINS, value=told)
    by_chance = counts.information_by_lot(counts_BN, domains_B)
    yield row(quantity=f"{OF_DOMAINS}, by chance", value=by_chance)


def _information_rows(
    counts_GN: Tensor, quantity: str, row: partial[ProbeRow]
) -> Iterator[ProbeRow]:
    """How much the group of a token tells about its first expert; nothing where all are rare."""
    told, by_chance = counts.information(counts_GN)
    if math.isnan(told):
        return
    yield row(quantity=quantity, value=told)
    yield row(quantity=f"{quantity}, by chance", value=by_chance)


def _token_rows(
    subject: ProbedModel, counts_VN: Tensor, n_active: int, n_tokens: int
) -> Iterator[ProbeRow]:
    """The tokens that choose each expert most reliably, and how often they do. Rare ones are left
    out.
    """
    decoder = TextDecoder(subject.checkpoint.tokenizer, subject.checkpoint.vocabulary)
    tokens_NK, shares_NK = counts.preferred_tokens(counts_VN, n_active, n_tokens)
    for expert, (tokens, shares) in enumerate(
        zip(tokens_NK.tolist(), shares_NK.tolist(), strict=True)
    ):
        for token, share in zip(tokens, shares, strict=True):
            if math.isnan(share):
                continue
            yield ProbeRow(
                probe="experts",
                quantity="share of a token's occurrences",
                value=share,
                n=int(counts_VN[token].sum()) // n_active,
                variant=repr(decoder.token_text(token)),
                x=expert,
                x_name="expert",
            )


def _n_experts(spec: ResolvedArchitecture, stack: str, layer: int) -> int:
    own = spec.encoder if stack == "encoder" else spec.stack
    assert own is not None
    feed_forward = own.layers[layer].feed_forward
    assert not isinstance(feed_forward, Dense)
    return feed_forward.n_experts


@dataclass
class _Choices:
    """Keeps the chosen experts of every token."""

    batches: dict[tuple[str, int], list[Tensor]] = field(default_factory=dict)

    def wants(self, name: str, layer: int) -> bool:
        return name.endswith(CHOICES)

    def see(self, name: str, layer: int, value: Tensor) -> None:
        key = (name.removesuffix(CHOICES), layer)
        self.batches.setdefault(key, []).append(value.cpu())
