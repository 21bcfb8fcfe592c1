"""Tokens of an answer with the log-probabilities that a model gave them."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from paribus.generate import GeneratedAnswer, TextDecoder
from paribus.report.numbers import score


def logprob_table(answer: GeneratedAnswer, decoder: TextDecoder) -> Table:
    """One line per token: its log-probability, and the most likely tokens with theirs."""
    assert answer.logprobs is not None
    assert answer.likeliest is not None
    table = Table("token", box=None, pad_edge=False, header_style="bold")
    table.add_column("log-probability", justify="right")
    if any(answer.likeliest):
        table.add_column("most likely")
    for token, logprob, likeliest in zip(
        answer.tokens, answer.logprobs, answer.likeliest, strict=True
    ):
        cells = [repr(decoder.token_text(token)), score(logprob)]
        others = []
        for number, value in likeliest:
            others.append(f"{decoder.token_text(number)!r} {score(value)}")
        if others:
            cells.append("  ".join(others))
        table.add_row(*cells)
    return table


def answer_json(answer: GeneratedAnswer, decoder: TextDecoder) -> dict[str, Any]:
    """An answer for another program."""
    table: dict[str, Any] = {
        "text": answer.text,
        "tokens": list(answer.tokens),
        "is_ended": answer.is_ended,
        "stop_string": answer.stop_string,
        "n_truncated": answer.n_truncated,
    }
    if answer.beam_score is not None:
        table["beam_score"] = answer.beam_score
    if answer.logprobs is not None and answer.likeliest is not None:
        table["logprobs"] = list(answer.logprobs)
        table["likeliest"] = []
        for likeliest in answer.likeliest:
            table["likeliest"].append(
                [
                    {"token": number, "text": decoder.token_text(number), "logprob": value}
                    for number, value in likeliest
                ]
            )
    return table
