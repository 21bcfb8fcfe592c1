"""Is the control table of a plan the one that its runs give? No fingerprint covers the table, but
the runs of the arms are covered, so a report works it out again from them.

For each field: its value in each arm, whether it is equal in every pair that is compared, and
whether it is the factor. For each quantity: what the sizes, the work and the environment of the
plan come to. Whether a difference could have been avoided is tried out on the spec alone. What
masks and objectives forbid takes a model to find out: there the table is believed. Counts of cut
contexts take the text: their line must be there, and its mark must fit them.

A plan of before the fourth edition need not have what was added with it.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, get_args

from pydantic import ValidationError

from paribus.analyse.plan_family import is_fourth_edition, plan_family, plan_levels
from paribus.analyse.text_read import (
    TOKEN_BUDGETS,
    TextRead,
    parse_epochs,
    text_differences,
)
from paribus.errors import SpecError
from paribus.record import ControlLine, Mark
from paribus.record.control_table import (
    BUDGET_TOLERANCE,
    CUT_CONTEXTS,
    CUT_TOLERANCE,
    QUESTION_PARAMETERS,
    TRAINED_ITEMS,
    TRAINED_TOLERANCE,
    UPDATES,
)
from paribus.record.plan import ArmRecord, PlanRecord, WorkQuantity
from paribus.spec import resolve
from paribus.spec.contrasts import ArmPair, default_contrasts, opposed_arms
from paribus.spec.factor import Factor, leaves_of, level_paths, level_tables
from paribus.spec.ladder import Ladder
from paribus.spec.match import UNEQUAL_FROM, Match, match_lengths
from paribus.spec.mup import uses_mup
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.price import question_parameters, stage_parameters
from paribus.spec.role_rates import describe_role_rates
from paribus.spec.run import RunSpec, load_run
from paribus.spec.size import architecture_size
from paribus.spec.training import SCALED_FIELDS

Table = dict[str, Any]
_ABSENT = "–"  # as the table has it
_UNSAID_FIELDS = ("kind",)  # a stage's own kind, which runs of one stage do not show
_RATE = "training.optimizer.rate"
# What follows from text and training where nobody writes it.
_DERIVED_SIZES = ("architecture.n_vocab", "architecture.max_length")
# A trial of one of these needs a model: masks and objectives decide who may learn what.
_TAKES_A_MODEL = {"mask", "encoder", "objective", "corpus", "length", "kind", "n_layers"}
# Quantities that are not in the plan a second time; their lines must be there.
_UNCOVERED = ("epochs", "starting weights in common", "kernel", "precision")
_ENVIRONMENT = {
    "threads": "n_threads",
    "device": "device",
    "torch": "torch",
    "python": "python",
    "code": "code",
}
_BYTES_LINE = "bytes_read in all"
_BEGIN = "begin"  # the line of the weights that arms begin with
_MATCH = "match"  # the line that some have where arms are of unequal size on purpose
# What a match moves; where sizes are unequal on purpose it follows from them.
_MOVED_SIZES = tuple(
    f"architecture.{name}"
    for name in (
        "d_model",
        "attention.n_heads",
        "attention.n_kv_heads",
        "feed_forward.d_ff",
        "feed_forward.d_expert",
    )
)
_ROUNDING = 1e-9  # of sums that were added in another order
_SHARE_ROUNDING = 0.001  # of the difference of two shares of cut contexts, as they are written
_UNCUT_MEASURES = ("task", "probe")  # yardsticks that lose no context, and have no line on it
_MAX_SHOWN = 40  # characters of a value


def control_faults(plan: PlanRecord) -> tuple[str, ...]:
    """Where the control table is not the one that the runs of the plan give, in words."""
    check = _ControlCheck(plan)
    faults = list(check.arm_faults()) or list(check.missing_lines())
    faults += check.judged_faults()
    if not faults:
        for line in plan.control:
            faults += check.line_faults(line)
    return tuple([f"control table: {fault}" for fault in faults])


class _ControlCheck:
    """A plan, and what its runs say of each field and quantity."""

    def __init__(self, plan: PlanRecord):
        self.plan = plan
        self.design: Table = plan.design.table
        self.numbers_stages = any(line.path.startswith("stages.") for line in plan.control) or any(
            len(arm.run.stages) > 1 for arm in plan.arms.values()
        )
        self.tables = {name: self._run_table(arm) for name, arm in plan.arms.items()}
        self.leaves = {name: leaves_of(table) for name, table in self.tables.items()}
        self.quantities = {name: _arm_quantities(plan, name) for name in plan.arms}
        self.needed_lines: list[str] = [*_UNCOVERED]
        if is_fourth_edition(plan):
            self._add_later_lines()

    def missing_lines(self) -> Iterator[str]:
        """Fields and quantities that the table does not have."""
        paths = dict.fromkeys(path for own in self.leaves.values() for path in own)
        names = dict.fromkeys(name for own in self.quantities.values() for name in own)
        there = {line.path for line in self.plan.control}
        missing = [path for path in (*paths, *names, *self.needed_lines) if path not in there]
        if missing:
            lines = "line is" if len(missing) == 1 else "lines are"
            yield f"{len(missing)} {lines} missing, such as that of {missing[0]}"

    def arm_faults(self) -> Iterator[str]:
        """What beside the table says which arm is which, and what may differ."""
        factors: dict[str, Factor] = {}
        for name, table in (self.design.get("factors") or {}).items():
            factors[name] = Factor.model_validate(table)
        declared: set[str] = set(self.design.get("factor") or ())
        for factor in factors.values():
            declared.update(level_paths(factor))
        if declared != set(self.plan.declared):
            yield f"declared is {self.plan.declared}, and the design declares {sorted(declared)}"
        for name, arm in self.plan.arms.items():
            if factors:
                is_own = sorted(arm.levels.values()) == sorted(name.split("+"))
                is_own = is_own and arm.levels.keys() == factors.keys()
            else:
                is_own = arm.levels == {"arm": name} and name in self.design["arms"]
            if not is_own:
                yield f"{name!r} has the levels {arm.levels}, and the design has no such arm"

    def line_faults(self, line: ControlLine) -> Iterator[str]:
        """What is wrong with one line."""
        if line.mark == Mark.CONFOUND and not self._is_allowed(line):
            yield f"{line.path} is allowed, and the design gives no such reason"
        if any(line.path in own for own in self.leaves.values()):
            yield from self._field_faults(line)
        elif any(line.path in own for own in self.quantities.values()):
            yield from self._quantity_faults(line)
        elif line.path in _UNCOVERED:
            values = list(line.values.values())
            if line.mark == Mark.EQUAL and _differs(values):
                yield f"{line.path} is marked equal, and its values differ"
        elif _is_under(line.path, [CUT_CONTEXTS]):
            yield from self._cut_faults(line)
        elif _is_under(line.path, [TRAINED_ITEMS]):
            yield from self._trained_faults(line)

    def _add_later_lines(self) -> None:
        """Lines that plans have from the fourth edition on, with their values where these follow
        from the plan.
        """
        runs = self._runs
        if any(isinstance(run.last.objective, TextLabels | WordTags) for run in runs.values()):
            for name, run in runs.items():
                spec = resolve(run.last_architecture)
                self.quantities[name][QUESTION_PARAMETERS] = question_parameters(
                    spec, run.last.objective
                )
        if any(uses_mup(run.architecture) for run in runs.values()):
            columns = {
                name: describe_role_rates(run.last_architecture) for name, run in runs.items()
            }
            for path in {path: None for column in columns.values() for path in column}:
                for name, column in columns.items():
                    self.quantities[name][path] = column.get(path, _ABSENT)
        if self.design.get("ladder") is not None:
            for own in self.quantities.values():
                own.update(Ladder.model_validate(self.design["ladder"]).rules)
        if any(arm.run.begin is not None for arm in self.plan.arms.values()):
            self.needed_lines.append(_BEGIN)
        measures = [self.plan.design.primary.measure, *self.plan.design.others]
        for place, measure in enumerate(measures):
            if measure.kind not in _UNCUT_MEASURES:
                path = f"{CUT_CONTEXTS}.others.{place - 1}" if place else CUT_CONTEXTS
                self.needed_lines.append(path)
        self.needed_lines += self._match_lines()
        updates = {
            name: sum(stage.training.n_steps for stage in run.stages) for name, run in runs.items()
        }
        if self.design.get("budget") is not None and self._is_far_apart(updates):
            for name, own in updates.items():
                self.quantities[name][UPDATES] = own

    def _is_far_apart(self, totals: Mapping[str, float]) -> bool:
        """Do two arms that are compared, of as many stages, differ by more than a budget may?"""
        for arm, against in self._pairs:
            is_known = {arm, against} <= totals.keys() and self._has_as_many_stages(arm, against)
            if is_known and abs(totals[arm] / totals[against] - 1) > BUDGET_TOLERANCE:
                return True
        return False

    def _has_as_many_stages(self, arm: str, other: str) -> bool:
        arms = self.plan.arms
        return len(arms[arm].run.stages) == len(arms[other].run.stages)

    @cached_property
    def _runs(self) -> dict[str, RunSpec]:
        """The runs of the arms; none where this version refuses one of them."""
        runs = {}
        for name, arm in self.plan.arms.items():
            try:
                runs[name] = RunSpec.model_validate_json(json.dumps(arm.run.table))
                resolve(runs[name].last_architecture)
            except (SpecError, ValidationError):
                return {}
        return runs

    def _match_lines(self) -> Iterator[str]:
        """The FLOPs of each text that an arm is matched by, and the line of sizes that are
        unequal on purpose.
        """
        length = self.plan.arms[self.plan.baseline].stage.training.length
        matches = {name: self._match_of(name) for name in self.plan.order[1:]}
        for match in filter(None, matches.values()):
            n_input, n_target = match_lengths(match, length)
            for by in match.sizes:
                if by.endswith("_flops"):
                    yield f"{by} of {n_input} + {n_target} tokens"
        whole = _read_match(self.design.get("match"))
        for pair in self._pairs:
            own = [matches.get(pair[0]), matches.get(pair[1]), whole]
            ratios = [
                ratio
                for match in filter(None, own)
                for ratio in self._size_ratios(pair, match, length)
            ]
            if ratios and all(abs(ratio - 1) > UNEQUAL_FROM for ratio in ratios):
                yield _MATCH
                return

    def _size_ratios(self, pair: ArmPair, match: Match, length: int) -> Iterator[float]:
        """How often the second's size the first has, by all that a match makes equal."""
        if not self._runs:
            return
        for by in match.sizes:
            try:
                first, second = [
                    architecture_size(
                        self._runs[name].architecture, by, *match_lengths(match, length)
                    )
                    for name in pair
                ]
            except SpecError:  # an arm that is not matched so, and has no room for the text
                continue
            yield first / second

    def _match_of(self, name: str) -> Match | None:
        """What an arm is matched by: its own, or that of the design."""
        tables: list[Table] = []
        if self.design.get("factors"):
            for factor, level in self.plan.arms[name].levels.items():
                own = Factor.model_validate(self.design["factors"][factor])
                tables.append(level_tables(own)[level])
        else:
            tables.append(self.design["arms"][name])
        for table in tables:
            if "match" in table:
                return _read_match(table["match"])
        return _read_match(self.design.get("match"))

    def _cut_faults(self, line: ControlLine) -> Iterator[str]:
        """Does the mark of cut contexts fit what each arm loses?"""
        if line.mark == Mark.CONFOUND:
            return
        shares = {arm: _cut_share(str(value)) for arm, value in line.values.items()}
        for arm, against in self._pairs:
            if not {arm, against} <= shares.keys():
                yield f"{line.path} does not say what {arm} and {against} lose"
                return
            difference = abs(shares[arm] - shares[against])
            if difference > CUT_TOLERANCE + _SHARE_ROUNDING:
                yield (
                    f"{line.path} is marked {line.mark.meaning}, and {arm} loses"
                    f" {shares[arm]:.1%} of the bytes, {against} {shares[against]:.1%}"
                )
                return

    def _trained_faults(self, line: ControlLine) -> Iterator[str]:
        """Does the mark of items in training text fit the counts of the arms?"""
        if line.mark == Mark.CONFOUND:
            return
        for arm, against in self._pairs:
            first, second = [str(line.values.get(name, "")) for name in (arm, against)]
            difference = _count_share(first) - _count_share(second)
            if abs(difference) > TRAINED_TOLERANCE:
                yield (
                    f"{line.path} is marked {line.mark.meaning}, and {arm} has {first}, {against}"
                    f" {second}"
                )
                return

    def _field_faults(self, line: ControlLine) -> Iterator[str]:
        for arm, own in self.leaves.items():
            value = own.get(line.path, _ABSENT)
            written = line.values.get(arm, _ABSENT)
            is_table = any(path.startswith(f"{line.path}.") for path in own)
            is_left_out = value == _ABSENT and written is None  # as a run keeps what is not set
            if value != written and not is_table and not is_left_out:
                yield (
                    f"{line.path} of {arm!r} is {_shorten(written)}, and its run has"
                    f" {_shorten(value)}"
                )
                return
        is_declared = _is_under(line.path, self.plan.declared)
        if line.mark == Mark.FACTOR and not is_declared:
            yield f"{line.path} is marked as the factor, and the design does not declare it"
        if not self._differs_in_a_pair(line.values):
            return
        if line.mark == Mark.EQUAL:
            yield f"{line.path} is marked equal, and differs between arms that are compared"
        elif line.mark == Mark.TUNED and (
            self.design.get("tune") is None or not _is_rate(line.path)
        ):
            yield f"{line.path} is marked as tuned, and is not"
        elif line.mark == Mark.MATCHED and not self._moves_sizes and not _is_scaled(line.path):
            yield f"{line.path} is marked as matched, and the design has no match and no budget"
        elif line.mark == Mark.FOLLOWS and not is_declared and self._could_be_equal(line.path):
            yield f"{line.path} is said to follow from the factor, and could have been equal"

    def _quantity_faults(self, line: ControlLine) -> Iterator[str]:
        values = {arm: own.get(line.path) for arm, own in self.quantities.items()}
        for arm, value in values.items():
            if not _agree(value, line.values.get(arm)):
                yield (
                    f"{line.path} of {arm!r} is {_shorten(line.values.get(arm))}, and the plan"
                    f" gives {_shorten(value)}"
                )
                return
        if line.mark == Mark.EQUAL and _differs(list(values.values())):
            yield f"{line.path} is marked equal, and its values differ"
        is_budget = line.path == f"{self.design.get('budget')} in all"
        is_met = line.mark == Mark.CONFOUND or not is_fourth_edition(self.plan)
        if is_budget and not is_met and self._is_far_apart(line.values):
            yield f"{line.path} is marked {line.mark.meaning}, and the arms miss the budget"
        if line.path == _BYTES_LINE and line.mark != Mark.CONFOUND and self._text_is_a_confound:
            yield f"{line.path} is marked {line.mark.meaning}, and could have been equal"

    def _differs_in_a_pair(self, values: Mapping[str, Any]) -> bool:
        return any(values.get(arm) != values.get(against) for arm, against in self._pairs)

    @cached_property
    def _pairs(self) -> list[ArmPair]:
        """Every pair of arms whose difference enters something reported."""
        plan = self.plan
        pairs, contrasts = plan_family(plan)
        control = plan.design.control_arm
        if control is not None:
            pairs = [*pairs, (control, plan.baseline)]
        shown = default_contrasts(plan_levels(plan), plan.baseline)
        for weights in (*shown.values(), *contrasts.values()):
            pairs = [*pairs, *opposed_arms(weights)]
        return pairs

    @property
    def _moves_sizes(self) -> bool:
        """Does a match or a budget move fields of an arm?"""
        arms = self.design.get("arms") or {}
        own = any("match" in table for table in arms.values())
        return own or bool(self.design.get("match") or self.design.get("budget"))

    @cached_property
    def _has_unequal_sizes(self) -> bool:
        return any(line.path == _MATCH for line in self.plan.control)

    def judged_faults(self) -> Iterator[str]:
        """What the plan says that comparisons differ in, beside the family and the reasons of the
        design; a plan of before the fourth edition may say nothing.
        """
        if "judged" not in self.plan.written and not is_fourth_edition(self.plan):
            return
        pairs, contrasts = plan_family(self.plan)
        keys: list[tuple[str | None, str | None, str | None]] = []
        keys += [(arm, against, None) for arm, against in pairs]
        keys += [(None, None, name) for name in contrasts]
        said = {(one.arm, one.against, one.contrast): one for one in self.plan.judged}
        reasons = self.design.get("compound") or {}
        for key in keys:
            name = key[2] or f"{key[0]} against {key[1]}"
            if key not in said:
                yield f"judged does not say what {name} differs in"
            elif said[key].is_compound and said[key].reason != reasons.get(key[2] or key[0]):
                yield f"{name} differs in several factors, and the design gives no such reason"

    def _is_allowed(self, line: ControlLine) -> bool:
        reasons = (self.design.get("allow") or {}).values()
        return line.allowed is None or line.allowed in reasons

    def _could_be_equal(self, path: str) -> bool:
        """Is there a compared pair of which one arm can take the other's value?"""
        is_derived = path in _DERIVED_SIZES
        is_derived = is_derived or (path in _MOVED_SIZES and self._has_unequal_sizes)
        if is_derived or _TAKES_A_MODEL & set(path.split(".")) or self._needs_a_model:
            return False
        return any(self._can_agree(path, *pair) for pair in self._pairs)

    @property
    def _needs_a_model(self) -> bool:
        """Do arms begin with weights, or are yardsticks probes, which take a model to be tried?"""
        measures = [self.plan.design.primary.measure, *self.plan.design.others]
        begins = any(arm.run.begin is not None for arm in self.plan.arms.values())
        return begins or any(measure.kind == "probe" for measure in measures)

    def _can_agree(self, path: str, one: str, other: str) -> bool:
        if path not in self.leaves[one] or path not in self.leaves[other]:
            return False
        if self.leaves[one][path] == self.leaves[other][path]:
            return False
        return self._is_accepted(one, other, path) or self._is_accepted(other, one, path)

    def _is_accepted(self, taker: str, giver: str, path: str) -> bool:
        table = copy.deepcopy(self.tables[taker])
        *outer, last = path.split(".")
        inner: Any = table
        for key in outer:
            inner = inner[key]
        inner[last] = self.leaves[giver][path]
        for size in _DERIVED_SIZES:
            table["architecture"].pop(size.rpartition(".")[2], None)
        try:
            run = load_run(table)
            resolve(run.last_architecture)
        except SpecError:
            return False
        return True

    @property
    def _text_is_a_confound(self) -> bool:
        budget = self.plan.design.budget
        lines = [line for line in self.plan.control if line.path == "epochs"]
        if budget not in TOKEN_BUDGETS or not lines:
            return False
        reads = {}
        for name, arm in self.plan.arms.items():
            question = (len(arm.run.stages), arm.stage.corpus.table, arm.stage.objective)
            epochs = parse_epochs(str(lines[0].values[name]))
            reads[name] = TextRead.of_stages(
                arm.n_steps, arm.total("bytes_read"), epochs, arm.texts, question
            )
        return any(one.is_confound for one in text_differences(budget, self._pairs, reads))

    def _run_table(self, arm: ArmRecord) -> Table:
        """The run of an arm as somebody would write it: its only stage, or stages by number. What
        the first stage changes of the weights that it begins with is written as the architecture.
        """
        run = arm.run.table
        first, *others = run["stages"]
        architecture, begins = dict(run["architecture"]), arm.run.begin is not None
        if begins:
            architecture = arm.run.architecture_after(1)
            first = {name: value for name, value in first.items() if name != "architecture"}
        table: Table = {"architecture": architecture}
        if self.numbers_stages:
            stages = [first, *others]
            return {**table, "stages": {str(place): one for place, one in enumerate(stages)}}
        unsaid = () if begins else _UNSAID_FIELDS
        return table | {name: value for name, value in first.items() if name not in unsaid}


def _arm_quantities(plan: PlanRecord, name: str) -> Table:
    """What the plan says elsewhere of each quantity of an arm; what an older plan lacks is left
    out.
    """
    arm, environment = plan.arms[name], plan.environment
    training = arm.stage.training
    quantities: Table = {
        **_parameter_counts(arm),
        "non_embedding_parameters": arm.price.non_embedding_parameters,
        "training_flops": arm.work.training_flops / arm.work.tokens_read,
        "prompt_flops": arm.price.prefill.dense,
        "token_flops": arm.price.decode.dense,
        "kv_bytes_per_token": arm.price.kv_bytes_per_token,
        "kv_bytes_per_source_token": arm.price.kv_bytes_per_source_token,
        "visible_share": round(arm.price.visible_share, 4),
        "batches": f"{training.n_sequences} × {training.length} of the text, by seed and step",
        "text": ", ".join(dict.fromkeys(text[:16] for text in arm.texts)),
    }
    work = plan.table["arms"][name]["work"]
    for quantity in get_args(WorkQuantity):
        if quantity in work:
            total = arm.earlier_total(quantity) + work[quantity] * arm.n_steps
            quantities[f"{quantity} in all"] = total
    for quantity, field in _ENVIRONMENT.items():
        if field in environment:
            quantities[quantity] = environment[field]
    if "code" in quantities:
        quantities["code"] = str(quantities["code"])[:16]
    return quantities


def _read_match(value: Any) -> Match | None:
    """A match as a design has it; one word is short for what it makes equal."""
    if value is None:
        return None
    return Match.model_validate({"by": value} if isinstance(value, str) else value)


def _cut_share(text: str) -> float:
    """The share of the contexts' bytes that is cut, of "18 of 18, 96 bytes (4.5%)"."""
    share = re.search(r"\(([\d.]+)%\)$", text)
    return float(share[1]) / 100 if share else 0.0


def _count_share(text: str) -> float:
    """The share that "14 of 16" is; nothing of what is no count."""
    count = re.fullmatch(r"(\d+) of (\d+)", text)
    return int(count[1]) / max(int(count[2]), 1) if count else 0.0


def _parameter_counts(arm: ArmRecord) -> dict[str, int]:
    """What the architecture of an arm comes to; nothing where this version refuses its run."""
    try:
        run = RunSpec.model_validate_json(json.dumps(arm.run.table))
        counts = stage_parameters(resolve(run.last_architecture), run.last.objective)
    except (SpecError, ValidationError):
        return {}
    return {"parameters": counts.total, "active_parameters": counts.active}


def _agree(value: Any, written: Any) -> bool:
    """Is a quantity what is written? Totals are written as whole numbers."""
    if isinstance(value, float) and isinstance(written, int | float):
        return math.isclose(value, written, rel_tol=_ROUNDING, abs_tol=0.5)
    return value == written


def _differs(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)


def _is_under(path: str, places: Sequence[str]) -> bool:
    """Is a path one of these places, inside one, or around one?"""
    for place in places:
        if path == place or path.startswith(f"{place}.") or place.startswith(f"{path}."):
            return True
    return False


def _is_scaled(path: str) -> bool:
    """Is a path counted in steps, so that it follows their number?"""
    table, _, name = path.rpartition(".")
    return name in SCALED_FIELDS and table.rpartition(".")[2] == "training"


def _is_rate(path: str) -> bool:
    return path == _RATE or (path.startswith("stages.") and path.endswith(f".{_RATE}"))


def _shorten(value: Any) -> str:
    text = repr(value)
    if len(text) <= _MAX_SHOWN:
        return text
    return f"{text[: _MAX_SHOWN - 1]}…"
