"""Minimal pairs scored by paribus and by lm-evaluation-harness, in one run.

    python benchmarks/task_choices.py blimp/data                    # 124M on the best device
    python benchmarks/task_choices.py blimp/data --tiny --items 1500   # a laptop

Both have the same tokenizer, sizes and dtype, and random weights. A time goes from items read to
rows written; loading is left out. lm-eval's `hf` is timed at several batch sizes, and its best is
the one that counts. The log-likelihoods of both are compared first where weights can be copied:
that is a law of its own (`tests/evaluate/`), so here only times are printed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from paribus.corpus import Tokenizer
from paribus.corpus.tasks import ChoiceItem, choice_items
from paribus.corpus.tokenizer import train_tokenizer
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks import ask_choices
from paribus.model import build
from paribus.record import TaskEvaluation, TaskHead, write_task_evaluation
from paribus.runtime import select_device
from paribus.spec import load
from paribus.spec.corpus import BPETokenizer
from paribus.spec.objectives import CausalLM
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import ChoicesTask

N_VOCAB = 50304
N_WORDS = 2000  # ids of the tokenizer; the table has N_VOCAB rows all the same
LARGE = {"n_layers": 12, "d_model": 768, "n_heads": 12}
TINY = {"n_layers": 2, "d_model": 64, "n_heads": 2}
BATCH_SIZES = (16, 64, 256, 1024)
ROUNDS = 1


def read_items(path: str, n_items: int | None) -> tuple[ChoiceItem, ...]:
    changes = {} if n_items is None else {"n_items": n_items}
    task = load_task(f"blimp:{path}", changes)
    assert isinstance(task, ChoicesTask)
    return choice_items(task)


def time_of(work: Callable[[], None], device: torch.device) -> float:
    """Seconds of the fastest round but the first, which warms up."""
    seconds: list[float] = []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])


def paribus_seconds(
    items: Sequence[ChoiceItem], tokenizer: Tokenizer, sizes: dict[str, Any], where: torch.device
) -> float:
    kernel = "masked" if where.type == "cuda" else "auto"
    architecture = load("gpt2", n_vocab=N_VOCAB, max_length=256, **sizes)
    model = build(architecture, seed=0, kernel=kernel).to(where, data_type(where))
    asked = AskedModel(model, CausalLM(), tokenizer)

    def work() -> None:
        result = ask_choices(asked, items, "sum")
        head = TaskHead(
            task={},
            name="blimp",
            measure="accuracy",
            label="likelihood",
            protocol={},
            component={},
            step=0,
            weights="",
            window=256,
            items="",
            n_items=len(items),
            n_truncated=0,
            n_left_out=0,
            text="",
            floors=result.floors,
            summary=result.accuracy,
            environment={},
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "evaluations" / "task-blimp.jsonl"
            write_task_evaluation(path, TaskEvaluation(head, result.answers))

    return time_of(work, where)


def lm_eval_seconds(
    items: Sequence[ChoiceItem],
    tokenizer: Tokenizer,
    sizes: dict[str, Any],
    where: torch.device,
    batch_size: int,
) -> float:
    config = GPT2Config(
        vocab_size=N_VOCAB,
        n_positions=256,
        n_embd=sizes["d_model"],
        n_layer=sizes["n_layers"],
        n_head=sizes["n_heads"],
        bos_token_id=N_WORDS + 1,
        eos_token_id=N_WORDS + 1,
    )
    words = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.library, eos_token="<|end|>", pad_token="<|end|>"
    )
    model = GPT2LMHeadModel(config)
    torch.nn.Module.to(model, where, data_type(where))
    make_harness: Any = HFLM  # its decorator hides its parameters
    harness = make_harness(
        pretrained=model, tokenizer=words, device=str(where), batch_size=batch_size
    )

    def work() -> None:
        requests: list[Instance] = []
        options: list[str] = []
        for item in items:
            for option in item.options:
                requests.append(Instance("loglikelihood", {}, ("", option), 0))
                options.append(option)
        scores = harness.loglikelihood(requests, disable_tqdm=True)
        with tempfile.TemporaryFile("w") as file:
            for option, (nats, is_greedy) in zip(options, scores, strict=True):
                row = {"text": option, "nats": nats, "greedy": is_greedy}
                file.write(json.dumps(row) + "\n")

    return time_of(work, where)


def data_type(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", help="BLiMP's folder of .jsonl files")
    parser.add_argument("--tiny", action="store_true", help="two layers of width 64")
    parser.add_argument("--items", type=int, default=None)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=BATCH_SIZES)
    parser.add_argument("--device", default=None)
    asked = parser.parse_args()
    device = select_device(asked.device)
    sizes = TINY if asked.tiny else LARGE
    items = read_items(asked.paths, asked.items)
    text = " ".join(option for item in items for option in item.options)
    tokenizer = train_tokenizer(BPETokenizer(n_vocab=N_WORDS), [text])
    ours = paribus_seconds(items, tokenizer, sizes, device)
    print(f"{len(items)} pairs, {sizes}, {device}, {data_type(device)}")
    print(f"paribus             {ours:8.2f} s", flush=True)
    theirs: list[float] = []
    for batch_size in asked.batch_sizes:
        theirs.append(lm_eval_seconds(items, tokenizer, sizes, device, batch_size))
        print(f"lm-eval hf, {batch_size:5}   {theirs[-1]:8.2f} s", flush=True)
    print(f"ratio to its best   {min(theirs) / ours:8.2f}")


if __name__ == "__main__":
    main()
