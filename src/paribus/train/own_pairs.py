"""Pairs of own responses of a stage: drawn once, when it begins, and kept in its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from paribus.corpus import TokenisedCorpus
from paribus.corpus.own_pairs import OwnPairs, own_pairs_bytes, parse_own_pairs
from paribus.errors import RecordError, SpecError
from paribus.files import MAX_ROWS_BYTES, read_text
from paribus.model import Transformer
from paribus.record.checksums import require_unchanged_file, write_listed_file
from paribus.record.disk import explained
from paribus.record.file_names import OWN_PAIRS_FILE
from paribus.spec.run import Stage

# from the model that a stage begins with, the prompts and the stage
DrawPairs = Callable[[Transformer, TokenisedCorpus, Stage], OwnPairs]
_REMEDY = "restore it, or remove the folder and train it again"
N_DIGITS = 16


def draw_with(
    draw_pairs: DrawPairs | None, model: Transformer, dataset: TokenisedCorpus, stage: Stage
) -> OwnPairs:
    """Pairs as they are drawn; SpecError where nobody draws any."""
    if draw_pairs is None:
        raise SpecError(
            "objective.own_samples is given, but nothing draws samples; give"
            " draw_pairs=paribus.generate.draw_own_pairs"
        )
    return draw_pairs(model, dataset, stage)


def own_pairs_of_run(folder: Path, draw: Callable[[], OwnPairs], is_resumed: bool) -> OwnPairs:
    """The pairs in the folder of a run; where it has none yet, they are drawn and written first."""
    path = folder / OWN_PAIRS_FILE
    if not path.exists():
        if is_resumed:
            raise RecordError(f"{path} is missing, and the run has learnt from it; {_REMEDY}")
        write_listed_file(folder, OWN_PAIRS_FILE, own_pairs_bytes(draw()))
    require_unchanged_file(folder, OWN_PAIRS_FILE, _REMEDY)
    with explained(path, "read", _REMEDY):
        return parse_own_pairs(read_text(path, MAX_ROWS_BYTES), str(path))


def describe_own_pairs(own: OwnPairs, folder: Path) -> str:
    """How many pairs there are, how many prompts gave none, and the sha256 of the file."""
    digest = hashlib.sha256(own_pairs_bytes(own)).hexdigest()[:N_DIGITS]
    n_train = sum(pair.split == "train" for pair in own.pairs)
    return (
        f"{n_train} pairs of own responses to learn from, {len(own.pairs) - n_train} to validate"
        f" on; {own.n_ties} prompts were left out, for their responses are equally good"
        f" ({OWN_PAIRS_FILE}, sha256 {digest})"
    )
