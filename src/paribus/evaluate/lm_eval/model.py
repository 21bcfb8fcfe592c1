"""A run, a checkpoint or an imported folder as a model of lm-evaluation-harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CacheHook

from paribus.canonical import canonical_hash
from paribus.errors import RecordError, SpecError
from paribus.evaluate.likelihood import CHECK_LENGTH, require_unseen
from paribus.evaluate.lm_eval.framings import open_framing
from paribus.evaluate.lm_eval.generation import TextGenerator, text_request
from paribus.evaluate.tasks.target_scores import target_scores
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.objectives import require_permitted
from paribus.objectives.answering import mixture_of_one
from paribus.objectives.framing import Ids, LaidItem
from paribus.record import RUNS
from paribus.record.disk import file_sha256
from paribus.record.file_names import WEIGHTS_FILE
from paribus.runtime import select_device

MODEL_ARGUMENTS = ("run", "framing", "runs", "tokenizer")
ALL_ARGUMENTS = (*MODEL_ARGUMENTS, "batch_size", "max_batch_size", "device")
CACHE_KEY = "paribus"  # under which a response cache says whose answers it holds


class ParibusLM(LM):
    """What lm-eval asks, answered by one checkpoint under one framing."""

    def __init__(
        self,
        checkpoint: LoadedCheckpoint,
        framing: str = "trained",
        device: torch.device | None = None,
        n_sequences: int | None = None,
    ) -> None:
        super().__init__()
        device = device or torch.device("cpu")
        self._device = device
        self.checkpoint = checkpoint
        self.framing_name = framing
        self.framing = open_framing(framing, checkpoint)
        self.n_sequences = n_sequences
        layout = self.framing.scoring
        length = min(self.window, CHECK_LENGTH)
        require_permitted(mixture_of_one(layout.component), checkpoint.spec, length)
        # Batches differ in length: what would have to be compiled anew for each is not used.
        kernel = "masked" if device.type == "cuda" else "auto"
        self.model = checkpoint.restore(device, kernel=kernel)
        self.weights = file_sha256(checkpoint.folder / WEIGHTS_FILE)

    @property
    def window(self) -> int:
        """How many positions are read at most."""
        return self.framing.generation.window

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: dict[str, Any] | None = None
    ) -> ParibusLM:
        """A model from `run=NAME,framing=trained`, as lm-eval's command line writes it."""
        arguments: dict[str, str] = {}
        for pair in filter(None, arg_string.split(",")):
            name, _, value = pair.partition("=")
            arguments[name.strip()] = value
        return cls.create_from_arg_obj(arguments, additional_config)

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: Mapping[str, Any], additional_config: Mapping[str, Any] | None = None
    ) -> ParibusLM:
        """A model from a table of arguments; SpecError for one that it does not have."""
        arguments = {**arg_dict, **(additional_config or {})}
        for name in arguments:
            if name not in ALL_ARGUMENTS:
                raise SpecError(f"model_args has {name!r}; use {', '.join(MODEL_ARGUMENTS)}")
        if "run" not in arguments:
            raise SpecError("model_args has no run; give one, as in run=NAME")
        checkpoint = load_checkpoint(
            str(arguments["run"]),
            str(arguments.get("runs", RUNS)),
            tokenizer=arguments.get("tokenizer"),
        )
        return cls(
            checkpoint,
            str(arguments.get("framing", "trained")),
            select_device(arguments.get("device")),
            _parse_batch_size(arguments.get("batch_size")),
        )

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """Log p of each continuation after its context, in nats, and whether it is what the model
        would have said.
        """
        laid_items = [self.framing.lay_pair(*request.args) for request in requests]
        return self._scores(laid_items)

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        """Log p of each text, in nats, window by window."""
        laid_items, owners = [], []
        for number, request in enumerate(requests):
            for item in self.framing.lay_windows(*request.args):
                laid_items.append(item)
                owners.append(number)
        sums = [0.0] * len(requests)
        for owner, (score, _) in zip(owners, self._scores(laid_items), strict=True):
            sums[owner] += score
        return sums

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        """What follows each context, up to one of its `until`."""
        text_requests = [text_request(self.framing, *request.args) for request in requests]
        generator = TextGenerator(self.model, self.checkpoint, self.framing, self.n_sequences)
        return generator.texts(text_requests)

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval writes beside its results."""
        return {
            "model_sha": self.weights,
            "framing": self.framing_name,
            "window": self.window,
            "component": self.framing.scoring.component.model_dump(mode="json"),
        }

    def set_cache_hook(self, cache_hook: CacheHook) -> None:
        """Take a response cache; RecordError if it holds answers of another model.

        lm-eval finds an answer in its cache by the request alone. So a cache is for one model: it
        says whose, and serves no other.
        """
        answers = cache_hook.dbdict
        if answers is not None:
            own = canonical_hash(self.get_model_info())
            if len(answers) and answers.get(CACHE_KEY) != own:
                raise RecordError(
                    f"the response cache {answers.filename} holds answers of another model,"
                    " framing or window; name another file with --use_cache"
                )
            answers[CACHE_KEY] = own
        super().set_cache_hook(cache_hook)

    def _scores(self, laid_items: Sequence[LaidItem]) -> list[tuple[float, bool]]:
        """Log p of each target, and whether it is greedy; those of one context are read together,
        and else those of about one length.
        """
        layout = self.framing.scoring
        require_unseen(self.model, layout, laid_items)
        order = sorted(
            range(len(laid_items)), key=lambda number: _reading_order(laid_items[number])
        )
        size = self.n_sequences or len(order) or 1
        scores = [(0.0, False)] * len(order)
        for start in range(0, len(order), size):
            numbers = order[start : start + size]
            some = [laid_items[number] for number in numbers]
            answers = target_scores(self.model, layout, some, with_greedy=True)
            assert answers.is_greedy is not None
            for number, nats, is_greedy in zip(
                numbers, answers.nats.tolist(), answers.is_greedy.tolist(), strict=True
            ):
                scores[number] = (-nats, is_greedy)
        return scores


def _reading_order(item: LaidItem) -> tuple[int, Ids, int]:
    return len(item.inputs), item.inputs, len(item.target)


def _parse_batch_size(value: object) -> int | None:
    """How many sequences are read at a time; None leaves it to us, as `auto` does."""
    if value is None or str(value).startswith("auto"):
        return None
    if str(value).isdecimal() and int(str(value)) > 0:
        return int(str(value))
    raise SpecError(f"batch_size is {value!r}; use a whole number from 1 up, or auto")
