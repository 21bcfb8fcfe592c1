"""What lm-evaluation-harness keeps of each item of a task: one JSON object a line under a head, in
a folder of its own beside the evaluations.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from paribus.canonical import canonical_hash, canonical_json
from paribus.record.checksums import write_listed_file
from paribus.record.disk import explained
from paribus.record.file_names import LM_EVAL

_NAME_CHARACTERS = 16


def write_lm_eval_samples(
    folder: Path,
    question: Mapping[str, Any],
    answer: Mapping[str, Any],
    samples: Iterable[Mapping[str, Any]],
) -> Path:
    """All samples of a task at once, and where they are.

    The head has what was asked (task, framing, demonstrations, items), which names the file, and
    what answered. So answers of a later checkpoint take the place of an earlier one's.
    """
    name = canonical_hash(dict(question))[:_NAME_CHARACTERS] + ".jsonl"
    lines = [{**question, **answer}, *map(dict, samples)]
    content = "".join(canonical_json(line) + "\n" for line in lines).encode()
    with explained(folder / LM_EVAL, "made", "remove what is in its place"):
        (folder / LM_EVAL).mkdir(exist_ok=True)
    write_listed_file(folder, f"{LM_EVAL}/{name}", content)
    return folder / LM_EVAL / name
