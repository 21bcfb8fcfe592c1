"""Options of sbatch that a user passes on, checked before they are written into a script.

submitit writes each as a line `#SBATCH --name=value` of a shell script. A value with a line break
would add lines of its own to the script, and one with quotes could end where nobody expects it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from paribus.errors import SpecError

SbatchOptions = Mapping[str, str | Literal[True]]  # True: a flag without a value

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_UNSAFE = re.compile(r"[\"'`\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_UNSAFE_PATH = re.compile(r"[%\"'`\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SIGNAL = re.compile(r"(SIG)?USR[12](@\d+)?")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_ONE_TASK = "a run is one task of one node"
_FOLLOWED = "paribus follows its jobs by it"
# options that paribus sets itself, and why
OWN_OPTIONS = {
    "array": "each run is one task of an array, and --jobs says how many run at a time",
    "job-name": _FOLLOWED,
    "output": "logs are kept with the study",
    "error": "logs are kept with the study",
    "input": "a run reads no input",
    "open-mode": "the log of a requeued run is continued",
    "requeue": "a run that is stopped is always requeued",
    "no-requeue": "a run that is stopped is always requeued",
    "nodes": _ONE_TASK,
    "ntasks": _ONE_TASK,
    "ntasks-per-node": _ONE_TASK,
    "parsable": "submitit reads what sbatch prints",
    "quiet": "submitit reads what sbatch prints",
    "help": "it submits nothing",
    "usage": "it submits nothing",
    "version": "it submits nothing",
    "test-only": "it submits nothing",
    "wait": "paribus waits itself",
    "wrap": "the command is paribus's own",
    "clusters": "paribus looks for its jobs in the queue of this cluster alone",
}


def parse_sbatch_options(texts: Iterable[str]) -> dict[str, str | Literal[True]]:
    """Options as they are written after --slurm: NAME=VALUE, or NAME of a flag. SpecError where
    one is given twice.
    """
    options: dict[str, str | Literal[True]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.removeprefix("--").replace("_", "-")
        if name in options:
            raise SpecError(f"--slurm {name} is given twice; give it once")
        options[name] = value if equals else True
    require_sbatch_options(options)
    return options


def require_sbatch_options(options: SbatchOptions) -> None:
    """SpecError where an option cannot be passed on to sbatch as it is."""
    for name, value in options.items():
        if not _NAME.fullmatch(name):
            raise SpecError(
                f"--slurm names the option {name!r}; write a long option of sbatch without dashes"
                " before it, such as partition=gpu"
            )
        for own, why in OWN_OPTIONS.items():
            if own.startswith(name):  # sbatch takes the beginning of a name for the whole
                raise SpecError(f"--slurm {name}: {why}; leave it out")
        if value is True:
            continue
        if not value or _UNSAFE.search(value):
            raise SpecError(
                f"--slurm {name} is {value!r}; give one line without quotes or backslashes, or no"
                " equals sign for a flag"
            )
    _require_signal(options)
    _require_node_names(options)
    if "time" in options:
        time_limit_seconds(options["time"])


def _require_signal(options: SbatchOptions) -> None:
    """SpecError where SLURM would send a signal that is not heeded, or send it to nobody but the
    shell.
    """
    value = options.get("signal")
    if value is not None and (value is True or not _SIGNAL.fullmatch(value)):
        raise SpecError(
            f"--slurm signal is {value!r}; use USR1@SECONDS or USR2@SECONDS, which a run heeds"
        )


def _require_node_names(options: SbatchOptions) -> None:
    """SpecError where nodes that are not fit could not be written beside those that are left out
    already: sbatch takes a value with a slash for a file of names.
    """
    if "exclud" in options:
        raise SpecError("--slurm exclud: write the whole name, exclude")
    nodes = options.get("exclude")
    if nodes is True or (nodes is not None and "/" in nodes):
        raise SpecError(
            f"--slurm exclude is {nodes!r}; write the names of nodes, such as"
            " exclude=node7,node[1-3]"
        )


def time_limit_seconds(value: str | Literal[True]) -> int:
    """Seconds of a time as sbatch writes it: minutes, [hours:]minutes:seconds, or
    days-hours[:minutes[:seconds]]. SpecError where it is none.
    """
    match = None if value is True else _TIME.fullmatch(value)
    if match is None:
        raise SpecError(
            f"--slurm time is {value!r}; write minutes, hours:minutes:seconds or"
            " days-hours:minutes:seconds"
        )
    days, *others = match.groups()
    numbers = [int(number) for number in others if number is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    hours, minutes, seconds = (0, 0, *numbers)[-3:]
    return (hours * 60 + minutes) * 60 + seconds


def require_plain_path(path: str) -> None:
    """SpecError where the path of a log would not be read by SLURM as it is written."""
    if _UNSAFE_PATH.search(path):
        raise SpecError(
            f"the folder of runs is {path!r}, and SLURM replaces % in the paths of logs and does"
            " not take quotes or backslashes there; name another with --runs"
        )
