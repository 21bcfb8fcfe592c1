"""Training speed and memory against transformers, on the same weights and the same batches, in
one run.

    python benchmarks/train_peers.py   # d=256, 4 layers, 4 heads, T=256, vocab 4096, batch 16

Each row first shows both losses over 20 steps: a row whose losses part by more than 1e-3 is void.
Then rounds are interleaved, a step of ours and a step of theirs in turn, and each round has its
ratio: shown are the median and the quartiles of these, which other work on the machine disturbs
least. Both sides decay the same weights. Dropout is 0 on both sides; time includes reading, posing,
clipping, the schedule and the row. Peak memory is that of a process of its own for each side.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch
import torch.nn.functional as F

from paribus.corpus import TokenisedCorpus
from paribus.corpus import prepare_corpus as build_corpus
from paribus.interop import export
from paribus.interop.family_choice import choose_family
from paribus.model import Transformer, build
from paribus.objectives import Problem, separates_documents
from paribus.spec import load, parameters
from paribus.spec.corpus import N_SPECIAL_TOKENS, BPETokenizer, Corpus
from paribus.spec.objectives import CausalLM, MaskedLM, Objective, PrefixLM, SpanCorruption
from paribus.spec.run import Stage
from paribus.spec.training import AdamW, Training
from paribus.train.learner import Learner
from paribus.train.loader import ProblemLoader
from paribus.train.optimizers import DECAYED_ROLES
from paribus.train.schedule import learning_rate_at

SIZE = {"d_model": 256, "n_layers": 4, "n_heads": 4, "n_vocab": 4096}
LENGTH, N_SEQUENCES, N_STEPS, WARMUP = 256, 16, 400, 40
PEERS: dict[str, tuple[str, str | None, Objective, str]] = {
    # name: preset, our mask where it is not the preset's, objective, their class
    "causal / GPT-2": ("gpt2", None, CausalLM(), "AutoModelForCausalLM"),
    "prefix / GPT-2": ("gpt2", "prefix", PrefixLM(), "AutoModelForCausalLM"),
    "masked / BERT": ("bert", None, MaskedLM(), "AutoModelForMaskedLM"),
    "spans / T5": ("t5", None, SpanCorruption(), "AutoModelForSeq2SeqLM"),
}
DROPOUTS = {
    "dropout_rate",
    "attn_pdrop",
    "resid_pdrop",
    "embd_pdrop",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
}
Step = Callable[[int], float]


def text() -> TokenisedCorpus:
    corpus = Corpus(tokenizer=BPETokenizer(n_vocab=SIZE["n_vocab"] - N_SPECIAL_TOKENS))
    return build_corpus(corpus, Path.home() / ".cache" / "paribus", show_progress=False)


def model_of(preset: str, mask: str | None = None) -> Transformer:
    changes = (
        {"encoder.n_layers": SIZE["n_layers"], "attention.d_head": 64} if preset == "t5" else {}
    )
    return build(load(preset, **SIZE, max_length=LENGTH, mask=mask, changes=changes), seed=1)


def lessons(preset: str, objective: Objective, built: TokenisedCorpus) -> ProblemLoader:
    training = Training(n_steps=N_STEPS, warmup=WARMUP, n_sequences=N_SEQUENCES, length=LENGTH)
    stage = Stage(corpus=built.spec, objective=objective, training=training)
    model = load(preset)
    return ProblemLoader(built, stage, model.encoder is not None, False)


def ours(name: str, built: TokenisedCorpus) -> Step:
    preset, mask, objective, _ = PEERS[name]
    asked = lessons(preset, objective, built)
    model = model_of(preset, mask)
    assert not separates_documents(model.spec)
    learner = Learner(model, asked.stage.training, built.vocabulary)

    def step(k: int) -> float:
        sums = learner.step(k, asked.problems_at(k))
        return (sums.nats_sum / sums.target_count).item()

    return step


def theirs(name: str, built: TokenisedCorpus) -> Step:
    import transformers  # not for our own side's memory

    preset, _, objective, auto = PEERS[name]
    asked = lessons(preset, objective, built)
    with tempfile.TemporaryDirectory() as folder:
        export(model_of(preset), Path(folder) / "hf")
        config = transformers.AutoConfig.from_pretrained(Path(folder) / "hf")
        for dropout in DROPOUTS & set(config.to_dict()):
            setattr(config, dropout, 0.0)
        model = getattr(transformers, auto).from_pretrained(
            Path(folder) / "hf", config=config, dtype=torch.float32
        )
    model.train()
    training = asked.stage.training
    given, decaying = training.optimizer, _decaying(preset)
    assert isinstance(given, AdamW)
    groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        groups[name in decaying].append(parameter)
    optimizer = torch.optim.AdamW(
        [
            {"params": groups[True], "weight_decay": given.decay},
            {"params": groups[False], "weight_decay": 0.0},
        ],
        lr=given.rate,
        betas=(given.beta1, given.beta2),
        eps=given.eps,
        fused=True,
    )

    def step(k: int) -> float:
        (problem,) = asked.problems_at(k)
        loss = _peer_loss(model, problem)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), given.clip or float("inf"))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(k, training)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def _decaying(preset: str) -> set[str]:
    """Their names of the weights that decay on our side: another choice would be another
    training.
    """
    spec = model_of(preset).spec
    family, _, given = choose_family(spec)
    roles = {name: parameter.role for name, parameter in parameters(spec).items()}
    return {
        theirs
        for pair in family.tensor_pairs(spec, given)
        if roles[pair.ours[0]] in DECAYED_ROLES
        for theirs in pair.theirs
    }


def _peer_loss(model: torch.nn.Module, problem: Problem) -> torch.Tensor:
    """Their loss as they write it: labels of -100 where nothing is asked."""
    inputs = problem.inputs
    asked = torch.where(problem.weights_BM > 0, problem.targets_BM, -100)
    labels = torch.full_like(inputs.tokens_BT, -100).scatter(1, problem.scored_positions_BM, asked)
    if inputs.source is not None:
        logits = model(input_ids=inputs.source.tokens_BT, decoder_input_ids=inputs.tokens_BT).logits
    else:
        prefix = inputs.layout.prefix
        assert isinstance(prefix, int)
        seen = {"attention_mask": _prefix_mask(inputs.layout.length, prefix)} if prefix else {}
        logits = model(input_ids=inputs.tokens_BT, **seen).logits
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def _prefix_mask(length: int, prefix: int) -> torch.Tensor:
    """What transformers adds to the scores: nothing where visible."""
    place = torch.arange(length)
    seen = (place[None] <= place[:, None]) | (place[None] < prefix)
    return torch.zeros(1, 1, length, length).masked_fill(~seen, float("-inf"))


def compared(name: str, built: TokenisedCorpus, rounds: int) -> str:
    mine, peer = ours(name, built), theirs(name, built)
    parted = max(abs(mine(k) - peer(k)) for k in range(20))
    pairs = []
    for k in range(20, 20 + rounds):
        begin = time.perf_counter()
        mine(k)
        middle = time.perf_counter()
        peer(k)
        pairs.append((middle - begin, time.perf_counter() - middle))
    ratios = sorted(other / own for own, other in pairs)
    low, ratio, high = statistics.quantiles(ratios, n=4)
    memory = [_peak(name, side) for side in ("ours", "theirs")]
    void = "" if parted <= 1e-3 else " VOID"
    return (
        f"| {name} | {ratio:.3f} | {low:.3f}–{high:.3f} | {memory[0]} | {memory[1]} |"
        f" {memory[0] / memory[1]:.2f} | {parted:.1e}{void} |"
    )


def _peak(name: str, side: str) -> int:
    """MiB of a process that takes ten steps of one side."""
    answer = subprocess.run(
        [sys.executable, __file__, "--peak", name, side], capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", action="append", choices=[*PEERS])
    parser.add_argument("--peak", nargs=2, metavar=("NAME", "SIDE"), help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    built = text()
    if wanted.peak:
        name, side = wanted.peak
        step = (ours if side == "ours" else theirs)(name, built)
        for k in range(10):
            step(k)
        status = Path("/proc/self/status").read_text().splitlines()
        print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
        return
    print(
        f"{date.today()}, {platform.machine()}, {torch.get_num_threads()} threads, torch"
        f" {torch.__version__}, transformers {version('transformers')}, float32, {SIZE},"
        f" T={LENGTH}, batch {N_SEQUENCES}\n"
    )
    print(
        "| ours / theirs | × as fast | quartiles | peak MiB, ours | theirs | ratio | losses part"
        " by |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in wanted.only or PEERS:
        print(compared(name, built, wanted.rounds), flush=True)


if __name__ == "__main__":
    main()
