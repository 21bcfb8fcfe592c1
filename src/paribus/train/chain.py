"""A run from its first stage to its last: each begins with the last weights of the one before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from paribus.corpus import TokenisedCorpus
from paribus.errors import DivergedError
from paribus.record.file_names import TOKENIZER_FILE
from paribus.spec.corpus import Corpus
from paribus.spec.run import RunSpec
from paribus.spec.stages import stage_corpus
from paribus.train.loop import TrainOutcome, require_trainable, train
from paribus.train.own_pairs import DrawPairs
from paribus.train.parent import Texts, n_finished_stages
from paribus.train.ranks import SINGLE_RANK, Ranks
from paribus.train.sharding import require_shardable
from paribus.watcher import Watcher
from paribus.workspace import Workspace

# a watcher for each stage, by its number
WatchStage = Callable[[int], AbstractContextManager[Watcher]]


def prepare_texts(run: RunSpec, prepare: Callable[[Corpus], TokenisedCorpus]) -> Texts:
    """The text of each stage; all of them are tokenised with the tokenizer of the first."""
    first = run.stages[0].corpus
    texts = [prepare(first)]
    tokenizer = texts[0].folder / TOKENIZER_FILE
    for stage in run.stages[1:]:
        texts.append(prepare(stage_corpus(stage.corpus, first, tokenizer)))
    return tuple(texts)


def train_chain(
    run: RunSpec,
    texts: Texts,
    workspace: Workspace,
    *,
    name: str | None = None,
    ranks: Ranks = SINGLE_RANK,
    watch: WatchStage | None = None,
    draw_pairs: DrawPairs | None = None,
) -> TrainOutcome:
    """Train every stage of a run, or go on where it stopped; a finished stage is left as it is.

    Runs that share their first stages share the folders of these. A run that begins from another
    leaves its stages as they are. `name` is for the last stage.
    Where a stage diverges, those after it diverge with it. `draw_pairs` is for a stage that prefers
    between own responses.
    """
    watch = watch or (lambda _: nullcontext(Watcher()))
    chain = [run.first_stages(number + 1) for number in range(len(run.stages))]
    for own, text in zip(chain, texts, strict=True):  # before any of them is trained
        require_trainable(own, text)
        if ranks.is_sharded:
            require_shardable(own.last)
    outcome = None
    for number in range(n_finished_stages(run, workspace.runs_folder), len(chain)):
        own, is_last = chain[number], number == len(chain) - 1
        try:
            with watch(number) as watcher:
                outcome = train(
                    own,
                    texts[: number + 1],
                    workspace,
                    name=name if is_last else _inherited_folder(run, number),
                    ranks=ranks,
                    watcher=watcher,
                    draw_pairs=draw_pairs,
                )
        except DivergedError:
            if is_last:  # else the stages after it record that they have nothing to begin with
                raise
    assert outcome is not None
    return outcome


def _inherited_folder(run: RunSpec, number: int) -> str | None:
    """The name of an earlier stage's folder, where it is that of a run which this one begins
    from.
    """
    if number < len(run.inherited_folders):
        return run.inherited_folders[number]
    return None
