"""The name of a run: a fingerprint of its chain of stages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from paribus.canonical import canonical_hash

StageTable = Mapping[str, Any]
PLACES = {
    "tune": ("rates",),  # what stands in those folders is in the plan
    "corpus": ("paths", "path"),  # of a source of files, of a tokenizer
    "task": ("paths", "train", "valid", "max_unpacked"),
}  # by the table they stand in
BEGIN = "begin"
BEGIN_PLACES = ("name", "path")  # of what a run begins from, which its sha256 says


def run_address(stages: Sequence[StageTable], with_places: bool = False) -> str:
    """The sha256 of the last stage and of its parent's address; `with_places` as it was in
    earlier versions.

        address(s₁ … sₙ) = sha256(canonical {parent: address(s₁ … sₙ₋₁), stage: sₙ})
        address of no stage = null

    Runs that share their first stages share the addresses `address(stages[:1])`,
    `address(stages[:2])`, …
    """
    assert stages, "a chain has at least one stage"
    parent = run_address(stages[:-1], with_places) if len(stages) > 1 else None
    stage = dict(stages[-1]) if with_places else without_places(stages[-1])
    return canonical_hash({"parent": parent, "stage": stage})


def without_places(value: Any, places: Collection[str] = ()) -> Any:
    """A spec as plain values without the paths of a corpus or a task: its text, or its items, have
    a fingerprint, wherever its files lie. What a run begins from has a sha256, whatever it is
    called.
    """
    if isinstance(value, Mapping):
        table = {}
        for key, own in value.items():
            if key == BEGIN and isinstance(own, Mapping):
                table[key] = {name: own[name] for name in own if name not in BEGIN_PLACES}
            elif key == BEGIN and isinstance(own, str):
                continue
            elif key not in places:
                table[key] = without_places(own, PLACES.get(key, places))
        return table
    if isinstance(value, list | tuple):
        return [without_places(own, places) for own in value]
    return value
