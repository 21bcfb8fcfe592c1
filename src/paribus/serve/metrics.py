"""Counts of a server as Prometheus reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock

from paribus.generate.engine import EngineState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
_HELP = {
    "responses_total": "Responses by HTTP status.",
    "answers_total": "Answers by model and reason of their end.",
    "prompt_tokens_total": "Tokens of prompts.",
    "cached_tokens_total": "Tokens of prompts that were found in the cache.",
    "read_tokens_total": "Tokens of prompts that were read.",
    "said_tokens_total": "Tokens that were said.",
}
_GAUGES = {
    "waiting_requests": "Answers that have not begun.",
    "running_requests": "Answers that are being made.",
    "cache_blocks": "Blocks in the cache.",
    "cache_bytes": "Bytes of the cache.",
}


class Metrics:
    """Counters that only grow, from any thread."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first_tokens: dict[str, list[float]] = {}  # by model: one count a bound, sum, count
        self._lock = Lock()

    def count_response(self, status: int) -> None:
        """An answer with an HTTP status."""
        with self._lock:
            self._counts["responses_total", f'status="{status}"'] += 1

    def count_answer(self, model: str, reason: str, numbers: Mapping[str, int]) -> None:
        """An answer of a model that ended, with the tokens of each kind."""
        label = f'model="{_escape(model)}"'
        with self._lock:
            self._counts["answers_total", f'{label},reason="{reason}"'] += 1
            for name, number in numbers.items():
                self._counts[f"{name}_tokens_total", label] += number

    def observe_first_token(self, model: str, seconds: float) -> None:
        """How long somebody waited for the first token."""
        with self._lock:
            bins = self._first_tokens.setdefault(model, [0.0] * (len(BOUNDS) + 2))
            for place, bound in enumerate(BOUNDS):
                bins[place] += seconds <= bound
            bins[-2] += seconds
            bins[-1] += 1

    def text(self, states: Mapping[str, EngineState]) -> str:
        """All counts, and how much each model has to do now."""
        with self._lock:
            lines = [*self._counter_lines(), *self._histogram_lines()]
        return "\n".join([*lines, *_gauge_lines(states), ""])

    def _counter_lines(self) -> Iterator[str]:
        for name, words in _HELP.items():
            yield f"# HELP paribus_{name} {words}"
            yield f"# TYPE paribus_{name} counter"
            for (own, labels), number in sorted(self._counts.items()):
                if own == name:
                    yield f"paribus_{name}{{{labels}}} {number}"

    def _histogram_lines(self) -> Iterator[str]:
        name = "paribus_seconds_to_first_token"
        yield f"# HELP {name} Seconds from a request to its first token."
        yield f"# TYPE {name} histogram"
        for model, bins in sorted(self._first_tokens.items()):
            label = f'model="{_escape(model)}"'
            for bound, number in zip(BOUNDS, bins, strict=False):
                yield f'{name}_bucket{{{label},le="{bound:g}"}} {int(number)}'
            yield f'{name}_bucket{{{label},le="+Inf"}} {int(bins[-1])}'
            yield f"{name}_sum{{{label}}} {bins[-2]!r}"
            yield f"{name}_count{{{label}}} {int(bins[-1])}"


def _gauge_lines(states: Mapping[str, EngineState]) -> Iterator[str]:
    for name, words in _GAUGES.items():
        yield f"# HELP paribus_{name} {words}"
        yield f"# TYPE paribus_{name} gauge"
        for model, state in states.items():
            value = {
                "waiting_requests": state.n_waiting,
                "running_requests": state.n_running,
                "cache_blocks": state.n_blocks,
                "cache_bytes": state.n_bytes,
            }[name]
            yield f'paribus_{name}{{model="{_escape(model)}"}} {value}'


def _escape(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
