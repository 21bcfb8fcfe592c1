"""What each arm costs: sizes, FLOPs and the cache, by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from paribus.spec.price import cache_across_turns


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
    return [*numbers, *_cache_lines(report)]


def _cache_lines(report: ReportData) -> Iterator[CostLine]:
    """Do cached keys and values stay valid while an answer is written, and when a chat goes on?"""
    specs = [report.resolved_architecture(arm) for arm in report.order]
    within = tuple("yes" if appendable(spec.stack.masks) else "no" for spec in specs)
    across = tuple(map(cache_across_turns, specs))
    for name, values in (("within an answer", within), ("across turns", across)):
        yield CostLine(f"cache kept {name}", values, len(set(values)) == 1)


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


def _cost_line(name: str, values: list[float], number_format: NumberFormat) -> CostLine:
    return CostLine(name, tuple(format_distinct(values, number_format)), are_equal(values))


def _price(report: ReportData, arm: str) -> PriceRecord:
    return report.plan.arms[arm].price


def _flops_per_token(report: ReportData, arm: str) -> float:
    work = report.plan.arms[arm].work
    return work.training_flops / work.tokens_read


def _total_flops(report: ReportData, arm: str) -> float:
    return report.plan.arms[arm].total("training_flops")
