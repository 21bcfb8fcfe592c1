"""Probes of one checkpoint on held-out text."""

from __future__ import annotations

from collections.abc import Iterator

from paribus.corpus import TokenisedCorpus
from paribus.probe.collapse_probe import n_passes, probe_collapse
from paribus.probe.context_probe import n_targets, probe_context, require_likelihood
from paribus.probe.corrupted_input import corrupting_components
from paribus.probe.corruption_probe import n_posed, probe_corruption
from paribus.probe.demonstrations import demonstration_rows, taught_episodes
from paribus.probe.descent_items import EpisodeTexts, descent_texts
from paribus.probe.descent_probe import n_tunings, probe_descent, require_projections
from paribus.probe.expert_probe import n_texts_read, probe_experts, require_experts
from paribus.probe.flow_probe import n_readings, probe_flow
from paribus.probe.gradient_probe import n_derivatives, probe_gradients
from paribus.probe.posed_texts import require_running_text
from paribus.probe.position_probe import n_fits, probe_positions
from paribus.probe.rank_probe import n_spectra, probe_rank, require_square_attention
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts, held_out_texts
from paribus.record.probe_rows import ProbeRow
from paribus.report.numbers import format_plural
from paribus.spec import ResolvedArchitecture
from paribus.spec.objectives import Objective
from paribus.spec.probes import (
    CollapseProbe,
    ContextProbe,
    CorruptionProbe,
    DescentProbe,
    ExpertsProbe,
    FlowProbe,
    GradientsProbe,
    HeldOutProbe,
    InContextProbe,
    PositionsProbe,
    RankProbe,
)
from paribus.spec.yardstick import HeldOutSplit
from paribus.watcher import Watcher


def probe_texts(
    subject: ProbedModel,
    corpus: TokenisedCorpus,
    probe: HeldOutProbe,
    split: HeldOutSplit = "test",
) -> ProbeTexts:
    """The texts that a probe asks for."""
    require_applicable(probe, subject.spec, subject.checkpoint.objective())
    length = probe.length or subject.default_length
    subject.require_length(length)
    if isinstance(probe, DescentProbe):
        return descent_texts(subject, corpus, probe, length)
    return held_out_texts(subject.encode, corpus, probe.n_texts, length, split)


def require_applicable(
    probe: HeldOutProbe, spec: ResolvedArchitecture, objective: Objective
) -> None:
    """ParibusError where a model has nothing that a probe looks at."""
    match probe:
        case ExpertsProbe():
            require_experts(spec)
        case ContextProbe():
            require_likelihood(objective)
        case GradientsProbe():
            require_running_text(objective)
        case CorruptionProbe():
            corrupting_components(objective)
        case DescentProbe():
            require_likelihood(objective)
            require_projections(spec)
        case RankProbe() | FlowProbe():
            require_square_attention(probe.kind, spec)
        case CollapseProbe() | PositionsProbe():
            pass


def probe_examples(
    subject: ProbedModel, probe: InContextProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """What a model makes of examples; they are drawn, so no text is read."""
    language = taught_episodes(subject.checkpoint)
    n_lengths = language.max_length - language.min_length + 1
    total = 2 * probe.n_texts * n_lengths
    watcher.note(f"{probe.kind}: {total:,} documents of {language.kind}")
    with watcher.stage(probe.kind, total):
        yield from demonstration_rows(
            subject.checkpoint, subject.model, language, probe.n_texts, watcher
        )


def probe_model(
    subject: ProbedModel, texts: ProbeTexts, probe: HeldOutProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """What a probe finds. Its cost is told beforehand, and the watcher follows it."""
    n_texts = f"{format_plural(len(texts.texts), 'text')} of {texts.length} tokens"
    match probe:
        case RankProbe():
            total, cost = n_spectra(subject, probe), f"spectra of {texts.length} directions"
            rows = probe_rank(subject, texts, probe, watcher)
        case CollapseProbe():
            total, cost = n_passes(texts, probe), "texts read"
            rows = probe_collapse(subject, texts, probe, watcher)
        case ExpertsProbe():
            total, cost = n_texts_read(subject, texts), "texts read"
            rows = probe_experts(subject, texts, probe, watcher)
        case PositionsProbe():
            total, cost = n_fits(subject, probe), "layers fitted"
            rows = probe_positions(subject, texts, probe, watcher)
        case FlowProbe():
            total, cost = n_readings(texts), "texts read or differentiated"
            rows = probe_flow(subject, texts, probe, watcher)
        case ContextProbe():
            total, cost = n_targets(subject, texts), "targets read after a context"
            rows = probe_context(subject, texts, probe, watcher)
        case GradientsProbe():
            total, cost = n_derivatives(subject, texts, probe), "derivatives of the loss of a text"
            rows = probe_gradients(subject, texts, probe, watcher)
        case CorruptionProbe():
            total, cost = n_posed(subject, texts), "texts posed"
            rows = probe_corruption(subject, texts, probe, watcher)
        case DescentProbe():
            assert isinstance(texts, EpisodeTexts)
            total, cost = n_tunings(texts, probe), "steps of fine-tuning"
            rows = probe_descent(subject, texts, probe, watcher)
    watcher.note(f"{probe.kind}: {n_texts}, {total:,} {cost}")
    with watcher.stage(probe.kind, total):
        yield from rows
