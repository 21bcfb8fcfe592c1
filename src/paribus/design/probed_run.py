"""Whether an arm has what a probe of its design looks at, before anything is trained."""

from __future__ import annotations

from paribus.errors import SpecError
from paribus.model.observed_places import places_of
from paribus.objectives.answering import answering_component, reading_component
from paribus.objectives.problem_layout import problem_layout
from paribus.probe.corrupted_input import corrupting_components, describe_component
from paribus.probe.demonstrations import episode_language
from paribus.probe.run import require_applicable
from paribus.spec import ResolvedArchitecture, resolve
from paribus.spec.objectives import Objective
from paribus.spec.probe_variants import (
    AS_IS,
    BY_BRANCH,
    OF_DOMAINS,
    OF_TOKENS,
    describe_variants,
    examples_fault,
    tells_stacks_apart,
)
from paribus.spec.probes import CorruptionProbe, ExpertsProbe, InContextProbe
from paribus.spec.run import RunSpec
from paribus.spec.stages import stage_architectures
from paribus.spec.yardstick import ProbeYardstick


def require_probeable(measure: ProbeYardstick, run: RunSpec) -> None:
    """SpecError where a run has nothing that a probe looks at, or no such variant of it."""
    spec, objective = resolve(stage_architectures(run)[-1]), run.last.objective
    if isinstance(measure.probe, InContextProbe):
        _require_examples(measure, run)
        return
    _require_place(measure, spec)
    require_applicable(measure.probe, spec, objective)
    if tells_stacks_apart(measure.probe.kind, measure.quantity):
        _require_stack_that_reads(measure, spec, objective)
    n_sources = len(run.last.corpus.sources)
    if measure.quantity == OF_DOMAINS and n_sources < 2:
        raise SpecError(
            f"quantity is {OF_DOMAINS!r}, but corpus.sources has {n_sources}, and the sources are"
            f" the domains; use two or more, or {OF_TOKENS!r}"
        )
    if isinstance(measure.probe, CorruptionProbe):
        _require_component(measure, objective)


def _require_place(measure: ProbeYardstick, spec: ResolvedArchitecture) -> None:
    place = "block_output"
    if measure.probe.kind in BY_BRANCH:
        place = f"{measure.branch}_weights"
    if isinstance(measure.probe, ExpertsProbe):
        place = "expert_choice"
    if f"{measure.stack}.{place}" not in places_of(spec):
        raise SpecError(
            f"the probe {measure.probe.kind!r} looks at {measure.stack}.{place}, which this"
            " architecture does not have; use a place that every arm has"
        )


def _require_stack_that_reads(
    measure: ProbeYardstick, spec: ResolvedArchitecture, objective: Objective
) -> None:
    """SpecError where texts are read by the encoder alone, and a probe looks at the decoder."""
    component = reading_component(objective)
    framing = problem_layout(component.objective, spec.encoder is not None)
    is_read_by_encoder = framing == "in place" and spec.encoder is not None
    if is_read_by_encoder and measure.stack == "stack" and measure.probe.kind != "gradients":
        raise SpecError(
            f"the probe {measure.probe.kind!r} looks at the decoder, but under"
            f" {component.objective.kind!r} the encoder alone reads a text; use stack = 'encoder'"
        )


def _require_component(measure: ProbeYardstick, objective: Objective) -> None:
    components = corrupting_components(objective)
    known = [AS_IS]
    if len(components) > 1:
        known += map(describe_component, components)
    if measure.variant not in known:
        raise SpecError(describe_variants(measure.variant, known))


def _require_examples(measure: ProbeYardstick, run: RunSpec) -> None:
    answering_component(run.last.objective, "likelihood")
    language = episode_language(run.last.corpus)
    if language is None:
        kinds = ", ".join(repr(source.kind) for source in run.last.corpus.sources)
        raise SpecError(
            "the probe 'in-context' shows examples of 'regression' or 'classification', but"
            f" corpus.sources has {kinds}; use it where every arm ends with such a source"
        )
    fault = examples_fault(language, measure.quantity, measure.variant)
    if fault is not None:
        raise SpecError(fault)
