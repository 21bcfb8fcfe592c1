"""What each arm costs: sizes, FLOPs and the cache, by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paribus.masks import appendable
from paribus.record.plan import PriceRecord
from paribus.report.material import Material
from paribus.report.numbers import Writer, are_equal, count, flops, percent, size, written_apart


@dataclass(frozen=True)
class Cost:
    """One line: what is counted, and each arm's value."""

    name: str
    values: tuple[str, ...]
    equal: bool


def costs(material: Material) -> list[Cost]:
    """Every line but those of the clock, which stand among the times."""
    lines: list[tuple[str, Callable[[str], float], Writer]] = [
        ("parameters", lambda arm: _price(material, arm).parameters, count),
        ("of them outside word tables", lambda arm: _price(material, arm).non_embedding_parameters, count),
        ("training FLOPs a token", lambda arm: _flops_per_token(material, arm), flops),
        ("training FLOPs in all", lambda arm: _total(material, arm), flops),
        ("FLOPs to read a prompt", lambda arm: _price(material, arm).prefill.dense, flops),
        ("FLOPs to write a token", lambda arm: _price(material, arm).decode.dense, flops),
        ("pairs of positions that see each other", lambda arm: _price(material, arm).visible_share, percent),
        ("KV cache a token", lambda arm: _price(material, arm).kv_bytes_per_token, size),
    ]
    if any(_price(material, arm).kv_bytes_per_source_token for arm in material.order):
        sources = ("KV cache a source token", lambda arm: _price(material, arm).kv_bytes_per_source_token, size)
        lines.append(sources)
    counted = [_cost(name, [value(arm) for arm in material.order], writer) for name, value, writer in lines]
    keys = tuple(kept(material, arm) for arm in material.order)
    return [*counted, Cost("cached keys kept across turns", keys, len(set(keys)) == 1)]


def costs_by_arm(material: Material) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """Of many arms: a heading and a line an arm of what differs between them, and in words what is equal."""
    lines = costs(material)
    apart = [line for line in lines if not line.equal]
    columns = [line.values for line in apart]
    equal = "; ".join(f"{line.name} {line.values[0]}" for line in lines if line.equal)
    table = [(arm, *(values[place] for values in columns)) for place, arm in enumerate(material.order)]
    return ("arm", *(line.name for line in apart)), table, f"Equal in all arms: {equal}." if equal else ""


def kept(material: Material, arm: str) -> str:
    """Do cached keys and values stay valid when a chat goes on?"""
    spec = material.spec(arm)
    if spec.encoder is not None:
        kept = appendable(spec.encoder.masks)
        return "the encoder's; the decoder begins anew" if kept else "no: the encoder reads each turn anew"
    if appendable(spec.stack.masks, prefix_grows=True):
        return "yes"
    if appendable(spec.stack.masks):
        return "while the prefix is the first turn's; not if each turn joins it"
    return "no"


def _cost(name: str, values: list[float], writer: Writer) -> Cost:
    return Cost(name, tuple(written_apart(values, writer)), are_equal(values))


def _price(material: Material, arm: str) -> PriceRecord:
    return material.plan.arms[arm].price


def _flops_per_token(material: Material, arm: str) -> float:
    work = material.plan.arms[arm].work
    return work.training_flops / work.tokens_read


def _total(material: Material, arm: str) -> float:
    return material.plan.arms[arm].work.training_flops * material.stage(arm).training.n_steps
