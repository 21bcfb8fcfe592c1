"""What an imported model was trained to predict: chosen when it is imported, and kept with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paribus.corpus.tokenizer import open_tokenizer
from paribus.errors import RecordError, SpecError
from paribus.interop.family import ModelFamily
from paribus.interop.special_tokens import has_our_special_tokens, own_sentinels
from paribus.model.weights import read_json, write_json
from paribus.objectives import require_permitted
from paribus.record.file_names import OBJECTIVE_FILE, TOKENIZER_FILE
from paribus.spec import ResolvedArchitecture
from paribus.spec.objectives import Objective, Seq2Seq, SpanCorruption
from paribus.spec.run import load_objective

_CHECK_LENGTH = 64  # positions of the text that shows whether an objective can be posed at all


def choose_objective(family: ModelFamily, kind: str | None, folder: Path) -> Objective:
    """The objective of a kind, or the one that a family is trained with; where the tokenizer in
    `folder` has no sentinels, hidden spans cannot be asked for.
    """
    if kind is not None:
        return load_objective(kind)
    if family.objective == SpanCorruption().kind and _lacks_sentinels(folder / TOKENIZER_FILE):
        return Seq2Seq()
    return load_objective(family.objective)


def _lacks_sentinels(tokenizer_file: Path) -> bool:
    if not tokenizer_file.is_file():
        return False
    tokenizer = open_tokenizer(tokenizer_file)
    return not (has_our_special_tokens(tokenizer) or own_sentinels(tokenizer))


def require_askable(objective: Objective, spec: ResolvedArchitecture) -> None:
    """SpecError where a model of this shape cannot have been trained with an objective."""
    require_permitted(objective, spec, min(spec.max_length, _CHECK_LENGTH))


def write_objective(folder: Path, objective: Objective) -> None:
    """The file of a checkpoint that says what its model was trained to predict."""
    write_json(folder / OBJECTIVE_FILE, objective.model_dump(mode="json"))


def read_objective(path: Path) -> Objective:
    """What a checkpoint says that its model was trained to predict."""
    table: dict[str, Any] = read_json(path)
    kind = table.pop("kind", None)
    try:
        return load_objective(str(kind), table)
    except SpecError as fault:
        raise RecordError(f"{path} is not an objective: {fault}; import it again") from fault
