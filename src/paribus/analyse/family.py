"""Every arm against the baseline, as one family of comparisons."""

from collections.abc import Iterable, Mapping, Sequence

from paribus.analyse.failures import Judgement, Scores, judged
from paribus.analyse.gain import Scale
from paribus.analyse.looks import SHARE, share_at
from paribus.errors import SpecError


def family(
    arms: Mapping[str, Scores],
    baseline: str,
    *,
    lower_is_better: bool,
    margin: float | None = None,
    looks: Mapping[int, float] | None = None,
    compared: Iterable[str] | None = None,
    seeds: Iterable[int] | None = None,
    scale: Scale = "difference",
    unit: str = "",
    remarks: Sequence[str] = (),
) -> dict[str, Judgement]:
    """A judgement for each arm compared; by default every arm but the baseline, so that m = arms − 1.

    All are read at one look: the share of the number of seeds, failures included. Bonferroni over the family.
    """
    names = [name for name in arms if name != baseline] if compared is None else list(compared)
    _require_names(arms, baseline, names)
    wanted = sorted(set(seeds) if seeds is not None else set().union(*(scores.keys() for scores in arms.values())))
    share = share_at({len(wanted): SHARE} if looks is None else looks, len(wanted))
    return {
        name: judged(
            arms[baseline], arms[name], lower_is_better=lower_is_better, margin=margin, n_comparisons=len(names),
            share=share, seeds=wanted, scale=scale, unit=unit, remarks=remarks,
        )
        for name in names
    }  # fmt: skip


def _require_names(arms: Mapping[str, Scores], baseline: str, names: list[str]) -> None:
    unknown = [name for name in (baseline, *names) if name not in arms]
    if unknown:
        raise SpecError(f"comparisons: {', '.join(unknown)} is no arm; use {', '.join(arms)}")
    if not names or baseline in names or len(set(names)) < len(names):
        listed = ", ".join(names) or "nothing"
        raise SpecError(f"comparisons: {listed} against {baseline}; name each arm but the baseline once, at least one")
