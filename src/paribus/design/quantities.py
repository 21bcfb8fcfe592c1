"""What follows from an arm's spec: sizes, costs, text, start and machine, as lines of the
control table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from paribus.analyse import TextRead
from paribus.analyse.text_read import StageEpochs, epochs_by_text, parse_epochs
from paribus.batch import BatchLayout
from paribus.corpus import TokenisedCorpus
from paribus.design.control import describe_arm_notes
from paribus.design.matching.size_match import MatchedSize, SizeMatch
from paribus.design.role_rate_lines import role_rate_lines
from paribus.design.step_cost import StepCost
from paribus.design.text_lines import mark_text_lines
from paribus.design.trials import ABSENT
from paribus.errors import SpecError
from paribus.masks import DOCUMENT_RULES, leaves
from paribus.model.initialise import initial_std
from paribus.model.kernels import AttentionMask, choose_kernel
from paribus.objectives.problem_layout import problem_layout
from paribus.record import ControlLine, Mark
from paribus.record.control_table import MATCH_SHIFT, QUESTION_PARAMETERS
from paribus.spec import (
    Alibi,
    Latent,
    Price,
    RelativeBias,
    ResolvedArchitecture,
    parameters,
    price,
    resolve,
)
from paribus.spec.corpus import gives_pairs
from paribus.spec.design import ArmPair
from paribus.spec.match import MatchBy
from paribus.spec.objectives import Objective, TextLabels, WordTags, components_of
from paribus.spec.price import question_parameters, stage_parameters
from paribus.spec.run import RunSpec
from paribus.spec.size import architecture_size
from paribus.train.parent import Texts

PARAMETER_COUNTS = ("parameters", "non_embedding_parameters", "active_parameters")
QUANTITIES = (
    *PARAMETER_COUNTS,
    "training_flops",
    "prompt_flops",
    "token_flops",
    "kv_bytes_per_token",
    "kv_bytes_per_source_token",
    "visible_share",
    "tokens_read in all",
    "positions_computed in all",
    "tokens_scored in all",
    "bytes_read in all",
    "training_flops in all",
    "epochs",
    "starting weights in common",
    "batches",
    "text",
)
MACHINE_QUANTITIES = ("kernel", "precision", "threads", "device", "torch", "python", "code")
TOTALS_TOLERANCE = 0.005  # totals that differ by less agree
SHIFTED_SIZES: tuple[MatchBy, ...] = ("non_embedding_parameters", "training_flops")
TOLD_SHIFT = 0.02  # of these sizes, by a match, that is told


@dataclass(frozen=True, eq=False)
class PlannedArm:
    """An arm as it will be run: matched in size and budget, at the rate as written."""

    name: str
    levels: Mapping[str, str]
    run: RunSpec
    texts: Texts  # one for each stage
    step_costs: tuple[StepCost, ...]  # likewise
    price: Price
    size_match: SizeMatch | None

    @property
    def n_steps(self) -> int:
        """Steps of the last stage."""
        return self.run.last.training.n_steps

    @property
    def dataset(self) -> TokenisedCorpus:
        """The text of the last stage."""
        return self.texts[-1]

    @property
    def step_cost(self) -> StepCost:
        """The cost of a step of the last stage."""
        return self.step_costs[-1]

    @property
    def earlier_flops(self) -> float:
        """FLOPs of all stages before the last."""
        return self.total("training_flops") - self.step_cost.training_flops * self.n_steps

    def first_stages(self, n_stages: int) -> PlannedArm:
        """The arm as far as one of its stages."""
        run, costs = self.run.first_stages(n_stages), self.step_costs[:n_stages]
        return replace(self, run=run, texts=self.texts[:n_stages], step_costs=costs)

    def total(self, quantity: str) -> float:
        """A quantity of a step, over all steps of all stages."""
        total = 0.0
        for stage, cost in zip(self.run.stages, self.step_costs, strict=True):
            total += getattr(cost, quantity) * stage.training.n_steps
        return total

    @cached_property
    def stage_epochs(self) -> StageEpochs:
        """How often each stage reads each source of its text."""
        epochs = []
        for stage, text in zip(self.run.stages, self.texts, strict=True):
            training = stage.training
            own = text.epochs(
                training.data_seed, training.n_steps, training.n_sequences, training.length
            )
            epochs.append(own)
        return tuple(epochs)

    @property
    def epochs(self) -> tuple[float, ...]:
        """How often each source of each text is read, by all stages that read it."""
        return epochs_by_text(self.stage_epochs, self.text_fingerprints)

    @property
    def text_fingerprints(self) -> list[str]:
        """The fingerprint of each stage's text."""
        return [text.fingerprint for text in self.texts]


def run_price(run: RunSpec, step_cost: StepCost) -> Price:
    """The price of one text: as much input and target as a row of training has, or half of each;
    with the parameters of a head, where the last stage has one.
    """
    spec = resolve(run.last_architecture)
    counts = stage_parameters(spec, run.last.objective)
    return replace(
        _architecture_price(run, spec, step_cost),
        parameters=counts.total,
        active_parameters=counts.active,
    )


def _architecture_price(run: RunSpec, spec: ResolvedArchitecture, step_cost: StepCost) -> Price:
    length = run.last.training.length
    if step_cost.n_input >= 1 and 1 <= step_cost.n_target < length:
        n_target = round(step_cost.n_target)
    else:
        n_target = length - length // 2
    if spec.encoder is not None:
        return price(spec, n_target, length - n_target, 0)
    return price(spec, length, None, _prefix(run.last.objective, length, n_target))


def _prefix(objective: Objective, length: int, n_target: int) -> int:
    """How many tokens of a row a mask has as its prefix, in one sequence."""
    layouts = set()
    for component in components_of(objective):
        layouts.add(problem_layout(component.objective, False))
    if "together" in layouts:
        return length - n_target
    if "shifted" in layouts:
        return 0
    return length


def quantity_lines(
    arms: Sequence[PlannedArm],
    budget: str | None,
    pairs: Sequence[ArmPair] = (),
    allow: Mapping[str, str] | None = None,
    budget_groups: Mapping[str, int] | None = None,
) -> tuple[ControlLine, ...]:
    """A line for each derived quantity; what is not equal, nor made so, follows from the factor.

    Under a budget of tokens, the text that each judged pair reads has a mark of its own. Arms of
    one of `budget_groups` have one budget; without groups, all have.
    """
    table = {arm.name: _arm_quantities(arm, arms[0]) for arm in arms}
    lines = []
    for name in QUANTITIES:
        values = {arm: own[name] for arm, own in table.items()}
        lines.append(_line(name, values, arms, budget, budget_groups or {}))
    reads = {arm.name: _text_read(arm) for arm in arms}
    reasons = {full_quantity_name(name): reason for name, reason in (allow or {}).items()}
    lines = mark_text_lines(lines, budget, pairs, reads, reasons)
    return (
        *lines,
        *_question_lines(arms),
        *_matched_flops_lines(arms),
        *_shift_lines(arms),
        *role_rate_lines({arm.name: arm.run for arm in arms}),
    )


def _question_lines(arms: Sequence[PlannedArm]) -> tuple[ControlLine, ...]:
    """The parameters that answers depend on, where that need not be all of them: a head reads the
    states of an encoder, not those of the decoder beside it.
    """
    if not any(isinstance(arm.run.last.objective, TextLabels | WordTags) for arm in arms):
        return ()
    values = {}
    for arm in arms:
        spec = resolve(arm.run.last_architecture)
        values[arm.name] = question_parameters(spec, arm.run.last.objective)
    mark = Mark.EQUAL if len(set(values.values())) == 1 else Mark.FOLLOWS
    return (ControlLine(path=QUESTION_PARAMETERS, mark=mark, values=values),)


def full_quantity_name(quantity: str) -> str:
    """A quantity as the table names it: `bytes_read` is short for `bytes_read in all`."""
    total = f"{quantity} in all"
    if quantity not in QUANTITIES and total in QUANTITIES:
        return total
    return quantity


def _text_read(arm: PlannedArm) -> TextRead:
    """What an arm reads in all, epochs as the table writes them: so a report of the record
    judges alike.
    """
    stage = arm.run.last
    question = (len(arm.run.stages), stage.corpus, stage.objective)
    return TextRead.of_stages(
        arm.n_steps,
        arm.total("bytes_read"),
        parse_epochs(_epochs_description(arm)),
        arm.text_fingerprints,
        question,
    )


def _epochs_description(arm: PlannedArm) -> str:
    """The epochs of each source, stage by stage: "8.3; 1.18, 0.59"."""
    stages = []
    for own in arm.stage_epochs:
        stages.append(", ".join(map("{:.3g}".format, own)))
    return "; ".join(stages)


def _line(
    name: str,
    values: Mapping[str, Any],
    arms: Sequence[PlannedArm],
    budget: str | None,
    groups: Mapping[str, int],
) -> ControlLine:
    if name in PARAMETER_COUNTS:
        return _size_line(name, values, _matched_sizes(name, arms))
    first, *others = values.values()
    if others.count(first) == len(others):
        return ControlLine(path=name, mark=Mark.EQUAL, values=values)
    if budget is None or name != f"{budget} in all":
        return ControlLine(path=name, mark=Mark.FOLLOWS, values=values)
    difference = _budget_difference(values, groups)
    if difference <= TOTALS_TOLERANCE:
        whole = ""
    else:
        whole = ", as near as whole steps come"
    note = f"budget matched to {difference:.2%}{whole}"
    return ControlLine(path=name, mark=Mark.MATCHED, values=values, note=note)


def _budget_difference(values: Mapping[str, Any], groups: Mapping[str, int]) -> float:
    """How far totals are from that of the first arm of their group, at most."""
    first_totals: dict[int, float] = {}
    difference = 0.0
    for arm, value in values.items():
        first = first_totals.setdefault(groups.get(arm, 0), value)
        difference = max(difference, abs(value / first - 1))
    return difference


def _matched_sizes(name: str, arms: Sequence[PlannedArm]) -> dict[str, MatchedSize]:
    """What those arms came to that were matched by a size of this name."""
    matched = {}
    for arm in arms:
        if arm.size_match is not None:
            for size in arm.size_match.sizes:
                if size.by == name:
                    matched[arm.name] = size
    return matched


def _size_line(
    name: str, values: Mapping[str, Any], matched_sizes: Mapping[str, MatchedSize]
) -> ControlLine:
    """A size that some arms were brought to: each with how near it came, the others as what
    they are.
    """
    first = next(iter(values.values()))
    differing = [arm for arm, value in values.items() if value != first]
    if not differing:
        return ControlLine(path=name, mark=Mark.EQUAL, values=values)
    if not matched_sizes:
        return ControlLine(path=name, mark=Mark.FOLLOWS, values=values)
    others = [arm for arm in differing if arm not in matched_sizes]
    notes = {}
    for arm, own in matched_sizes.items():
        if others or arm in differing:
            notes[arm] = f"sizes {own.agreement_description}"
    notes |= dict.fromkeys(others, "not matched by it")
    note = describe_arm_notes(notes)
    is_unequal = any(own.is_unequal for own in matched_sizes.values())
    mark = Mark.FOLLOWS if others or is_unequal else Mark.MATCHED
    return ControlLine(path=name, mark=mark, values=values, note=note)


def _matched_flops_lines(arms: Sequence[PlannedArm]) -> tuple[ControlLine, ...]:
    """FLOPs of the texts that arms were matched by, one line for each: of the architecture, not
    of its training.
    """
    texts: dict[tuple[MatchBy, int, int], dict[str, MatchedSize]] = {}
    for arm in arms:
        match = arm.size_match
        if match is None:
            continue
        for size in match.sizes:
            if size.by.endswith("_flops"):
                key = (size.by, match.n_input, match.n_target)
                texts.setdefault(key, {})[arm.name] = size
    lines = []
    for (by, n_input, n_target), own in texts.items():
        values = {arm.name: _text_flops(arm, by, n_input, n_target) for arm in arms}
        lines.append(_size_line(f"{by} of {n_input} + {n_target} tokens", values, own))
    return tuple(lines)


def _shift_lines(arms: Sequence[PlannedArm]) -> tuple[ControlLine, ...]:
    """How far the match has moved sizes that it need not have: none where it moved them little."""
    values, is_shifted = {}, False
    for arm in arms:
        shifts = []
        for by in SHIFTED_SIZES:
            shift = 0.0 if arm.size_match is None else arm.size_match.shift_of(by)
            if abs(shift) > TOLD_SHIFT:
                words = by.replace("_", " ").replace("flops", "FLOPs").replace("non e", "non-e")
                shifts.append(f"{words} by {100 * shift:+.1f} %")
        values[arm.name] = " and ".join(shifts) or ABSENT
        is_shifted = is_shifted or bool(shifts)
    if not is_shifted:
        return ()
    return (ControlLine(path=MATCH_SHIFT, mark=Mark.MATCHED, values=values),)


def _text_flops(arm: PlannedArm, by: MatchBy, n_input: int, n_target: int) -> float | str:
    try:
        return architecture_size(arm.run.last_architecture, by, n_input, n_target)
    except SpecError:  # an arm that was not matched, and has no room for such a text
        return ABSENT


def _arm_quantities(arm: PlannedArm, baseline: PlannedArm) -> dict[str, Any]:
    own, cost = arm.price, arm.step_cost
    training = arm.run.last.training
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
        "tokens_read in all": round(arm.total("tokens_read")),
        "positions_computed in all": round(arm.total("positions_computed")),
        "tokens_scored in all": round(arm.total("tokens_scored")),
        "bytes_read in all": round(arm.total("bytes_read")),
        "training_flops in all": arm.total("training_flops"),
        "epochs": _epochs_description(arm),
        "starting weights in common": round(_shared_start(arm.run, baseline.run), 4),
        "batches": f"{training.n_sequences} × {training.length} of the text, by seed and step",
        "text": ", ".join(dict.fromkeys([text.fingerprint[:16] for text in arm.texts])),
    }


def _spec(arm: PlannedArm) -> ResolvedArchitecture:
    return resolve(arm.run.architecture)


def shared_init_share(one: ResolvedArchitecture, other: ResolvedArchitecture) -> float:
    """The share of a model's parameters that start with the same values as in the other."""
    theirs = parameters(other)
    n_all = n_same = 0
    for name, parameter in parameters(one).items():
        n_all += parameter.count
        if name in theirs and _start(parameter, one) == _start(theirs[name], other):
            n_same += parameter.count
    return n_same / n_all


def _start(parameter: Any, spec: ResolvedArchitecture) -> tuple[Any, ...]:
    """What decides the values that a parameter starts with."""
    return parameter.shape, parameter.role, _init_std(parameter, spec)


def _init_std(parameter: Any, spec: ResolvedArchitecture) -> float:
    if parameter.role in ("gain", "bias"):
        return 0.0
    return initial_std(parameter, spec)


def _shared_start(run: RunSpec, baseline: RunSpec) -> float:
    """The share of the weights with which both begin alike."""
    if run.begin is None and baseline.begin is None:
        return shared_init_share(resolve(run.architecture), resolve(baseline.architecture))
    if run.begin is None or baseline.begin is None or run.begin.weights != baseline.begin.weights:
        return 0.0
    return 1.0


def machine_lines(
    arms: Sequence[PlannedArm], environment: Mapping[str, Any], device: torch.device
) -> tuple[ControlLine, ...]:
    """Lines for what is the same because one machine runs them all, and for the kernel each arm
    gets there.
    """
    names = [arm.name for arm in arms]
    precision = "bf16 autocast" if device.type == "cuda" else "float32"
    common_values = {
        "precision": precision,
        "threads": environment["n_threads"],
        "device": environment["device"],
        "torch": environment["torch"],
        "python": environment["python"],
        "code": environment["code"][:16],
    }
    kernels = {arm.name: _kernels(arm, device) for arm in arms}
    if len(set(kernels.values())) == 1:
        kernel_mark = Mark.EQUAL
    else:
        kernel_mark = Mark.FOLLOWS
    lines = [ControlLine(path="kernel", mark=kernel_mark, values=kernels)]
    for name, value in common_values.items():
        values = dict.fromkeys(names, value)
        lines.append(ControlLine(path=name, mark=Mark.EQUAL, values=values))
    return tuple(lines)


def _kernels(arm: PlannedArm, device: torch.device) -> str:
    """The kernels of an arm's masks, in the order of its layers; pairs leave padding, which not
    every kernel takes.
    """
    spec, own = resolve(arm.run.last_architecture), arm.price
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    pads = any(map(gives_pairs, arm.dataset.spec.sources))
    kernels: dict[str, None] = {}
    for stack, length in ((spec.encoder, own.source_length), (spec.stack, own.length)):
        if stack is None:
            continue
        has_bias = isinstance(stack.positions, RelativeBias | Alibi)
        prefix = own.prefix if stack is spec.stack else length
        for block in stack.layers:
            attention = block.attention
            if isinstance(attention, Latent):
                width = attention.d_content + attention.d_rotary
            else:
                width = attention.d_head
            if leaves(block.mask) & DOCUMENT_RULES:
                documents = torch.zeros(1, length, dtype=torch.int64)
            else:
                documents = None
            layout = BatchLayout(
                n_sequences=1, length=length, prefix=prefix, documents_BT=documents
            )
            if pads:
                real = torch.ones(1, length, dtype=torch.bool)
                layout = replace(layout, prefix=torch.tensor([prefix]), real_BT=real)
            view = AttentionMask.of(block.mask, layout, layout, attention.n_heads, device)
            kernels[choose_kernel(view, dtype, width or 1, has_bias)] = None
    return ", ".join(kernels)
