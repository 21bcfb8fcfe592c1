"""Build the text that runs read, show what it contains, or sample documents from it.

ACTION is build, show or sample. SPEC is a file that `paribus train` takes, a design (the text of
its base is used), or a file with only a corpus table. Without SPEC, the default text is used. Built
text is kept in the cache and used again; show and sample build it first if it is not there.
"""

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from paribus.cli.terminal.arguments import JsonOption, RunSettingsOption, parse_settings
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.corpus_samples import print_samples, samples_json
from paribus.cli.terminal.corpus_table import corpus_json, print_build_summary, print_corpus_table
from paribus.cli.terminal.folders import CacheOption
from paribus.corpus import Split, TokenisedCorpus, prepare_corpus
from paribus.corpus.splits import SPLITS
from paribus.errors import SpecError
from paribus.nearest import did_you_mean
from paribus.spec.run import load_text
from paribus.workspace import cache_folder

ACTIONS = ("build", "show", "sample")
N_SAMPLES = 3


def build_corpus(
    spec: str | Path | Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    cache: str | Path | None = None,
) -> TokenisedCorpus:
    """The text of a run, built or found in the cache; without a spec, the text read by default."""
    return prepare_corpus(load_text(spec, changes).corpus, cache_folder(cache), show_progress=True)


def command(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="build, show or sample.")],
    spec: Annotated[
        Path | None, typer.Argument(metavar="SPEC", help="A .toml or .json file; see above.")
    ] = None,
    settings: RunSettingsOption = None,
    cache: CacheOption = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="SPLIT",
            help="Split to sample from: train, valid or test; by default train.",
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("-n", min=1, metavar="N", help="Number of documents to sample; by default 3."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Seed of the sample; by default 0.")
    ] = None,
    json: JsonOption = False,
) -> None:
    _require_options(action, {"--split": split, "-n": n, "--seed": seed})
    sample_split = _parse_split(split or "train")
    text, begin = load_text(spec, parse_settings(settings)), perf_counter()
    corpus = prepare_corpus(text.corpus, cache_folder(cache), show_progress=True)
    page = console()
    match action, json:
        case "sample", True:
            print_json(samples_json(corpus, sample_split, n or N_SAMPLES, seed or 0))
        case "sample", False:
            print_samples(corpus, sample_split, n or N_SAMPLES, seed or 0, page)
        case _, True:
            print_json(corpus_json(corpus, text.training))
        case "build", False:
            print_build_summary(corpus, perf_counter() - begin, page)
        case _:
            print_corpus_table(corpus, text.training, page)


def _require_options(action: str, options: Mapping[str, object]) -> None:
    if action not in ACTIONS:
        advice = did_you_mean(action, ACTIONS)
        raise SpecError(
            f"ACTION is {action!r}, which is not an action; {advice}use build, show or sample"
        )
    extra = [option for option, value in options.items() if value is not None]
    if action != "sample" and extra:
        raise SpecError(
            f"{extra[0]} is given to {action!r}, but only 'sample' takes it; leave it out"
        )


def _parse_split(name: str) -> Split:
    for split in SPLITS:
        if split == name:
            return split
    raise SpecError(f"--split is {name!r}; use train, valid or test")
