"""What follows from an arm's spec: sizes, costs, text, start and machine, as lines of the control table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from paribus.analyse import TextRead
from paribus.analyse.text_read import epochs_of
from paribus.batch import Layout
from paribus.corpus import Built
from paribus.design.control import by_arm
from paribus.design.match import Matched
from paribus.design.size import size
from paribus.design.text_lines import with_text_read
from paribus.design.trials import ABSENT
from paribus.design.work import Work
from paribus.errors import SpecError
from paribus.masks import SameDocument, leaves
from paribus.model.kernels import View, choose
from paribus.model.start import deviation
from paribus.objectives.framing import framing
from paribus.record import ControlLine, Mark
from paribus.spec import Alibi, Latent, Price, RelativeBias, Resolved, parameters, price, resolve
from paribus.spec.corpus import gives_pairs
from paribus.spec.design import Pair
from paribus.spec.match import By
from paribus.spec.objectives import parts
from paribus.spec.run import RunSpec

COUNTED = ("parameters", "non_embedding_parameters", "active_parameters")
QUANTITIES = (
    *COUNTED, "training_flops", "prompt_flops", "token_flops", "kv_bytes_per_token", "kv_bytes_per_source_token",
    "visible_share", "tokens_read in all", "positions_computed in all", "tokens_scored in all", "bytes_read in all",
    "training_flops in all", "epochs", "starting weights in common", "batches", "text",
)  # fmt: skip
MACHINE = ("kernel", "precision", "threads", "device", "torch", "python", "code")
NEAR = 0.005  # totals that differ by less agree


@dataclass(frozen=True, eq=False)
class Planned:
    """An arm as it will be run: matched in size and budget, at the rate as written."""

    name: str
    levels: Mapping[str, str]
    run: RunSpec
    built: Built
    work: Work
    price: Price
    matched: Matched | None

    @property
    def n_steps(self) -> int:
        return self.run.stages[-1].training.n_steps

    @cached_property
    def epochs(self) -> tuple[float, ...]:
        """How often the training text of each source is read."""
        training = self.run.stages[-1].training
        return self.built.epochs(training.data_seed, self.n_steps, training.n_sequences, training.length)


def priced(run: RunSpec, work: Work) -> Price:
    """The price of one text: as much input and target as a row of training has, or half of each."""
    spec, length = resolve(run.architecture), run.stages[-1].training.length
    n_target = round(work.n_target) if work.n_input >= 1 and 1 <= work.n_target < length else length - length // 2
    if spec.encoder is not None:
        return price(spec, n_target, length - n_target, 0)
    in_place = all(framing(part.objective, False) == "in place" for part in parts(run.stages[-1].objective))
    return price(spec, length, None, length if in_place else length - n_target)


def quantities(
    arms: Sequence[Planned],
    budget: str | None,
    pairs: Sequence[Pair] = (),
    allow: Mapping[str, str] | None = None,
) -> tuple[ControlLine, ...]:
    """A line for each derived quantity; what is not equal, nor made so, follows from the factor.

    Under a budget of tokens, the text that each judged pair reads has a mark of its own.
    """
    table = {arm.name: _of(arm, arms[0]) for arm in arms}
    found = [_line(name, {arm: own[name] for arm, own in table.items()}, arms, budget) for name in QUANTITIES]
    reads = {arm.name: _text_read(arm) for arm in arms}
    reasons = {full_name(name): reason for name, reason in (allow or {}).items()}
    return (*with_text_read(found, budget, pairs, reads, reasons), *_matched_work(arms))


def full_name(quantity: str) -> str:
    """A quantity as the table names it: `bytes_read` is short for `bytes_read in all`."""
    total = f"{quantity} in all"
    return total if quantity not in QUANTITIES and total in QUANTITIES else quantity


def _text_read(arm: Planned) -> TextRead:
    """What an arm reads in all, epochs as the table writes them: so a report of the record judges alike."""
    stage = arm.run.stages[-1]
    question = (stage.corpus, stage.objective)
    return TextRead(arm.n_steps, arm.work.bytes_read * arm.n_steps, epochs_of(_epochs(arm)), question)


def _epochs(arm: Planned) -> str:
    return ", ".join(f"{times:.3g}" for times in arm.epochs)


def _line(name: str, values: Mapping[str, Any], arms: Sequence[Planned], budget: str | None) -> ControlLine:
    first, *others = values.values()
    if name in COUNTED:
        return _size_line(name, values, {arm.name: arm.matched for arm in arms if _by(arm) == name and arm.matched})
    if all(value == first for value in others):
        return ControlLine(name, Mark.EQUAL, values)
    if budget is None or name != f"{budget} in all":
        return ControlLine(name, Mark.FOLLOWS, values)
    apart = max(abs(value / first - 1) for value in others)
    whole = "" if apart <= NEAR else ", as near as whole steps come"
    return ControlLine(name, Mark.MATCHED, values, f"budget matched to {apart:.2%}{whole}")


def _by(arm: Planned) -> str | None:
    return None if arm.matched is None else arm.matched.by


def _size_line(name: str, values: Mapping[str, Any], matched: Mapping[str, Matched]) -> ControlLine:
    """A size that some arms were brought to: each with how near it came, the others as what they are."""
    first = next(iter(values.values()))
    apart = [arm for arm, value in values.items() if value != first]
    if not apart:
        return ControlLine(name, Mark.EQUAL, values)
    if not matched:
        return ControlLine(name, Mark.FOLLOWS, values)
    others = {arm: "not matched by it" for arm in apart if arm not in matched}
    told = {arm: f"sizes {own.agreement}" for arm, own in matched.items() if others or arm in apart}
    return ControlLine(name, Mark.MATCHED, values, by_arm(told | others))


def _matched_work(arms: Sequence[Planned]) -> tuple[ControlLine, ...]:
    """FLOPs of the texts that arms were matched by, one line for each: of the architecture, not of its training."""
    texts: dict[tuple[By, int, int], dict[str, Matched]] = {}
    for arm in arms:
        if arm.matched is not None and arm.matched.by.endswith("_flops"):
            key = (arm.matched.by, arm.matched.n_input, arm.matched.n_target)
            texts.setdefault(key, {})[arm.name] = arm.matched
    return tuple(
        _size_line(
            f"{by} of {n_input} + {n_target} tokens",
            {arm.name: _flops(arm, by, n_input, n_target) for arm in arms},
            own,
        )
        for (by, n_input, n_target), own in texts.items()
    )


def _flops(arm: Planned, by: By, n_input: int, n_target: int) -> float | str:
    try:
        return size(arm.run.architecture, by, n_input, n_target)
    except SpecError:  # an arm that was not matched, and has no room for such a text
        return ABSENT


def _of(arm: Planned, baseline: Planned) -> dict[str, Any]:
    own, cost, n_steps = arm.price, arm.work, arm.n_steps
    training = arm.run.stages[-1].training
    return {
        "parameters": own.parameters,
        "non_embedding_parameters": own.non_embedding_parameters,
        "active_parameters": own.active_parameters,
        "training_flops": cost.training_flops / cost.tokens_read,
        "prompt_flops": own.prefill.dense,
        "token_flops": own.decode.dense,
        "kv_bytes_per_token": own.kv_bytes_per_token,
        "kv_bytes_per_source_token": own.kv_bytes_per_source_token,
        "visible_share": round(own.visible_share, 4),
        "tokens_read in all": round(cost.tokens_read * n_steps),
        "positions_computed in all": round(cost.positions_computed * n_steps),
        "tokens_scored in all": round(cost.tokens_scored * n_steps),
        "bytes_read in all": round(cost.bytes_read * n_steps),
        "training_flops in all": cost.training_flops * n_steps,
        "epochs": _epochs(arm),
        "starting weights in common": round(in_common(resolve(arm.run.architecture), _spec(baseline)), 4),
        "batches": f"{training.n_sequences} × {training.length} of the text, by seed and step",
        "text": arm.built.fingerprint[:16],
    }


def _spec(arm: Planned) -> Resolved:
    return resolve(arm.run.architecture)


def in_common(one: Resolved, other: Resolved) -> float:
    """The share of a model's parameters that start with the same values as in the other."""
    theirs = {name: (p.shape, p.role, _drawn(p, other)) for name, p in parameters(other).items()}
    table = parameters(one)
    same = sum(p.count for name, p in table.items() if theirs.get(name) == (p.shape, p.role, _drawn(p, one)))
    return same / sum(p.count for p in table.values())


def _drawn(parameter: Any, spec: Resolved) -> float:
    return 0.0 if parameter.role in ("gain", "bias") else deviation(parameter, spec)


def machine(arms: Sequence[Planned], environment: Mapping[str, Any], device: torch.device) -> tuple[ControlLine, ...]:
    """Lines for what is the same because one machine runs them all, and for the kernel each arm gets there."""
    names = [arm.name for arm in arms]
    precision = "bf16 autocast" if device.type == "cuda" else "float32"
    shared = {
        "precision": precision, "threads": environment["n_threads"], "device": environment["device"],
        "torch": environment["torch"], "python": environment["python"], "code": environment["code"][:16],
    }  # fmt: skip
    kernels = {arm.name: _kernels(arm, device) for arm in arms}
    equal = len(set(kernels.values())) == 1
    lines = [ControlLine(name, Mark.EQUAL, dict.fromkeys(names, value)) for name, value in shared.items()]
    return ControlLine("kernel", Mark.EQUAL if equal else Mark.FOLLOWS, kernels), *lines


def _kernels(arm: Planned, device: torch.device) -> str:
    """The kernels of an arm's masks, in the order of its layers; pairs leave padding, which not every kernel takes."""
    spec, own = _spec(arm), arm.price
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    pads = any(gives_pairs(source) for source in arm.built.corpus.sources)
    found: dict[str, None] = {}
    for stack, length in ((spec.encoder, own.source_length), (spec.stack, own.length)):
        if stack is None:
            continue
        biased = isinstance(stack.positions, RelativeBias | Alibi)
        prefix = own.prefix if stack is spec.stack else length
        for block in stack.layers:
            attention = block.attention
            width = attention.d_content + attention.d_rotary if isinstance(attention, Latent) else attention.d_head
            documents = torch.zeros(1, length, dtype=torch.int64) if SameDocument() in leaves(block.mask) else None
            layout = Layout(1, length, prefix=prefix, documents_BT=documents)
            if pads:
                real = torch.ones(1, length, dtype=torch.bool)
                layout = replace(layout, prefix=torch.tensor([prefix]), real_BT=real)
            view = View.of(block.mask, layout, layout, attention.n_heads, device)
            found[choose(view, dtype, width or 1, biased)] = None
    return ", ".join(found)
