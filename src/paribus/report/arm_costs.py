"""What each arm costs: sizes, FLOPs and the cache, by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paribus.masks import appendable
from paribus.record.plan import PriceRecord
from paribus.report.numbers import (
    NumberFormat,
    are_equal,
    format_count,
    format_distinct,
    format_flops,
    format_percent,
    format_size,
)
from paribus.report.report_data import ReportData


@dataclass(frozen=True)
class CostLine:
    """One line: what is counted, and each arm's value."""

    name: str
    values: tuple[str, ...]
    equal: bool


def cost_lines(report: ReportData) -> list[CostLine]:
    """Every line but those of the clock, which stand among the times."""
    lines: list[tuple[str, Callable[[str], float], NumberFormat]] = [
        ("parameters", lambda arm: _price(report, arm).parameters, format_count),
        (
            "of them outside word tables",
            lambda arm: _price(report, arm).non_embedding_parameters,
            format_count,
        ),
        ("training FLOPs per token", lambda arm: _flops_per_token(report, arm), format_flops),
        ("training FLOPs in all", lambda arm: _total_flops(report, arm), format_flops),
        ("FLOPs to read a prompt", lambda arm: _price(report, arm).prefill.dense, format_flops),
        ("FLOPs to write a token", lambda arm: _price(report, arm).decode.dense, format_flops),
        ("visible query–key pairs", lambda arm: _price(report, arm).visible_share, format_percent),
        ("KV cache per token", lambda arm: _price(report, arm).kv_bytes_per_token, format_size),
    ]

    def source_bytes(arm: str) -> float:
        return _price(report, arm).kv_bytes_per_source_token

    if any(map(source_bytes, report.order)):
        lines.append(("KV cache per source token", source_bytes, format_size))
    numbers = []
    for name, value, writer in lines:
        numbers.append(_cost_line(name, list(map(value, report.order)), writer))
    keys = tuple(describe_cache_reuse(report, arm) for arm in report.order)
    return [*numbers, CostLine("cached keys kept across turns", keys, len(set(keys)) == 1)]


def cost_table(report: ReportData) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """Of many arms: a heading and a line an arm of what differs between them, and in words what
    is equal.
    """
    heading, columns, equal = ["arm"], [], []
    for line in cost_lines(report):
        if line.equal:
            equal.append(f"{line.name} {line.values[0]}")
        else:
            heading.append(line.name)
            columns.append(line.values)
    table = list(zip(report.order, *columns, strict=True))
    if equal:
        return tuple(heading), table, f"Equal in all arms: {'; '.join(equal)}."
    return tuple(heading), table, ""


def describe_cache_reuse(report: ReportData, arm: str) -> str:
    """Do cached keys and values stay valid when a chat goes on?"""
    spec = report.resolved_architecture(arm)
    if spec.encoder is not None:
        if appendable(spec.encoder.masks):
            return "the encoder's; the decoder begins anew"
        return "no: the encoder reads each turn anew"
    if appendable(spec.stack.masks, prefix_grows=True):
        return "yes"
    if appendable(spec.stack.masks):
        return "while the prefix is the first turn's; not if each turn joins it"
    return "no"


def _cost_line(name: str, values: list[float], number_format: NumberFormat) -> CostLine:
    return CostLine(name, tuple(format_distinct(values, number_format)), are_equal(values))


def _price(report: ReportData, arm: str) -> PriceRecord:
    return report.plan.arms[arm].price


def _flops_per_token(report: ReportData, arm: str) -> float:
    work = report.plan.arms[arm].work
    return work.training_flops / work.tokens_read


def _total_flops(report: ReportData, arm: str) -> float:
    return report.plan.arms[arm].total("training_flops")
