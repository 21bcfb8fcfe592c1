"""List the tasks that can be asked, or show an item of one as each architecture is asked it.

Without a name, the built-in tasks and the readers of files are listed. A task is a TOML file, the
name of a built-in one, or READER:PATH, such as blimp:data/blimp. --show names architectures or
runs: the first item is laid out before each of them, with special tokens written ‹so›.

--pairs writes the items of a split to a file of pairs instead, which a stage can be tuned on
(source kind "pairs"): the question as it is asked, and its right answer. A task whose only file is
the one to train on has it as its test split: paribus tasks sst2:train.tsv --split test --pairs
sst2.jsonl.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.table import Table

from paribus.cli.terminal.arguments import JsonOption, load_architecture, parse_settings
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.folders import RUNS, CacheOption, RunsOption
from paribus.cli.terminal.task_evaluation import named_subject
from paribus.cli.terminal.task_example import (
    TaskExample,
    architecture_arm,
    require_item,
    task_example,
)
from paribus.corpus import TokenisedCorpus
from paribus.corpus.tasks import ChoiceItem, task_pairs, write_task_pairs
from paribus.errors import RecordError, SpecError
from paribus.evaluate.tasks import TaskArm
from paribus.evaluate.tasks.protocols import AskedItem
from paribus.evaluate.tasks.run import task_items
from paribus.report.numbers import DASH, format_plural
from paribus.spec import presets
from paribus.spec.task_loading import built_in_tasks, load_task
from paribus.spec.task_readers import READERS
from paribus.spec.tasks import TaskSplit
from paribus.workspace import Workspace


def tasks() -> dict[str, dict[str, str]]:
    """Every built-in task and every reader, each with what it is."""
    readers = {name: entry.about for name, entry in READERS.items() if entry.suffixes}
    return {"built in": built_in_tasks(), "readers": readers}


def write_pairs(
    task: str | Path | Mapping[str, Any],
    path: str | Path,
    split: str = "train",
    *,
    changes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> int:
    """Write the items of a task's split as pairs to train on; how many they are.

    A line is `{"source": …, "target": …, "task": …}`, with the texts that scoring has.
    """
    splits: dict[str, TaskSplit] = {one: one for one in get_args(TaskSplit)}
    if split not in splits:
        raise SpecError(f"split is {split!r}; use one of {', '.join(splits)}")
    pairs = task_pairs(load_task(task, changes), splits[split])
    write_task_pairs(Path(path), pairs, overwrite)
    return len(pairs)


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK", help="A task: a TOML file, a built-in name, or READER:PATH."
        ),
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARCH|RUN",
            help="An architecture or a run that the item is shown for. May be repeated.",
        ),
    ] = None,
    item: Annotated[
        str | None, typer.Option(metavar="NAME", help="The item to show; by default the first.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=VALUE", help="Set a field of the task. May be repeated."
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Write the items of a split as pairs to train on."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="SPLIT",
            help="The split for --pairs: train (the default), valid, test.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the file of --pairs if it exists.")
    ] = False,
    runs: RunsOption = RUNS,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    for_an_item = {
        "--show": show is not None,
        "--item": item is not None,
        "--runs": runs != RUNS,
        "--cache": cache is not None,
    }
    if name is None:
        others = {"--set": settings is not None, "--pairs": pairs is not None}
        _refuse_options({**for_an_item, **others}, "without a task; name one")
    if pairs is not None:
        assert name is not None
        _refuse_options(for_an_item, "beside --pairs; leave it out")
        changes = parse_settings(settings)
        n_pairs = write_pairs(name, pairs, split or "train", changes=changes, overwrite=force)
        _print_pairs_written(n_pairs, pairs, json)
        return
    _refuse_options(
        {"--split": split is not None, "--force": force}, "without --pairs; leave it out"
    )
    if name is None:
        _print_list(json)
        return
    task = load_task(name, parse_settings(settings))
    arms, dataset = _arms(show or ["gpt2", "unilm", "t5", "bert"], Workspace(runs, cache))
    items = task_items(task, "test", dataset)
    chosen = require_item(items, item)
    examples = {label: task_example(arm, chosen) for label, arm in arms.items()}
    if json:
        print_json(
            {
                "task": task.model_dump(mode="json"),
                "item": chosen.name,
                "n_items": len(items),
                "shown": {label: vars(example) for label, example in examples.items()},
            }
        )
        return
    console().print(f"{task.name}: {task.kind}, {len(items)} items; item {chosen.name}")
    console().print(_item_lines(chosen), soft_wrap=True)
    console().print(_example_table(examples))


def _example_table(examples: Mapping[str, TaskExample]) -> Table:
    """What each architecture reads of an item, a line each."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("", "encoder reads", "reads", "prefix", "scored", "rows"):
        table.add_column(heading)
    for label, example in examples.items():
        table.add_row(
            label,
            _visible(example.encoder_reads),
            _visible(example.reads),
            str(example.n_prefix),
            _visible(example.scored),
            str(example.n_rows),
        )
    return table


def _refuse_options(given: Mapping[str, bool], reason: str) -> None:
    """SpecError names the first option that is given and has no use."""
    for option, is_given in given.items():
        if is_given:
            raise SpecError(f"{option} is given {reason}")


def _print_pairs_written(n_pairs: int, path: Path, json: bool) -> None:
    if json:
        print_json({"n_pairs": n_pairs, "file": str(path)})
    else:
        console().print(f"{format_plural(n_pairs, 'pair')} in {path}", soft_wrap=True)


def _print_list(json: bool) -> None:
    if json:
        print_json(tasks())
        return
    page = console()
    for group, entries in tasks().items():
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        table.add_column(group, no_wrap=True)
        table.add_column("what it asks")
        for entry, about in entries.items():
            table.add_row(entry, about)
        page.print(table)
        page.print()
    page.print(
        "paribus tasks TASK shows an item; paribus evaluate RUN --tasks TASK asks all of it."
    )


def _arms(names: list[str], workspace: Workspace) -> tuple[dict[str, TaskArm], Any]:
    """How each named architecture or run is asked; and the text of the first run, if there is
    one.
    """
    arms: dict[str, TaskArm] = {}
    dataset: TokenisedCorpus | None = None
    for name in names:
        if name in presets() or Path(name).suffix in (".toml", ".json"):
            arms[name] = architecture_arm(load_architecture(name).spec)
            continue
        try:
            subject = named_subject(name, workspace)
        except RecordError as fault:
            raise SpecError(
                f"--show is {name!r}, which is neither an architecture nor a run: {fault}"
            ) from fault
        arms[name] = subject.arm()
        if subject.texts and dataset is None:
            dataset = subject.texts[-1]
    return arms, dataset


def _item_lines(item: AskedItem) -> str:
    if isinstance(item, ChoiceItem):
        answers = item.options
        marks = ["*" if number == item.key else " " for number in range(len(answers))]
        before = item.context
    else:
        answers, before = item.references, item.source
        marks = ["*"] * len(answers)
    lines = [f"  context   {_visible(before)}"]
    for mark, answer in zip(marks, answers, strict=True):
        lines.append(f"  answer {mark}  {_visible(answer)}")
    return "\n".join(lines) + "\n"


def _visible(text: str | None) -> str:
    """A text on one line, its line breaks and its spaces at either end shown; – where there is
    none.
    """
    if text is None:
        return DASH
    text = text.replace("\n", "↵")
    if text != text.strip(" "):
        return f"“{text}”"
    return text
