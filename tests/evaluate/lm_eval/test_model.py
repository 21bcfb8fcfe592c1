"""lm-evaluation-harness on our models, through its own task runner, without a network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from conversation_run import conversation_table
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from lm_eval_tasks import write_tasks
from safetensors.torch import load_file, save_file

import paribus as pb
from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.evaluate import Item, likelihoods
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.lm_eval.model import ParibusLM
from paribus.evaluate.run import trained_window
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.record.manifest import write_manifest
from paribus.runtime import torch_generator
from paribus.workspace import Workspace

CLOSE = 1e-4  # nats
TRAINING = {
    "n_steps": 2,
    "n_sequences": 4,
    "length": 48,
    "row_every": 2,
    "valid_every": 2,
    "valid_batches": 1,
}
TEXT = {
    "sources": [{"kind": "copy", "form": "text", "n_documents": 300}],
    "tokenizer": {"kind": "bpe", "n_vocab": 290},
}
PAIRS = {
    **TEXT,
    "sources": [{"kind": "copy", "min_length": 5, "max_length": 11, "n_documents": 300}],
}
DECODER = {"n_layers": 1, "d_model": 16, "max_length": 48, "feed_forward": {"d_ff": 24}}
BOTH = {**DECODER, "encoder": {"n_layers": 1}}
HEADS = {"attention": {"n_heads": 2, "d_head": 8}}
RUNS: dict[str, dict[str, Any]] = {
    "causal": {"architecture": {"preset": "gpt2", **DECODER}, "objective": "causal"},
    "prefix": {"architecture": {"preset": "unilm", **DECODER}, "objective": "prefix"},
    "modes": {"architecture": {"preset": "unilm", **DECODER}, "objective": "ul2"},
    "spans": {"architecture": {"preset": "t5", **BOTH}, "objective": "spans"},
    "pairs": {"architecture": {"preset": "t5", **BOTH}, "objective": "seq2seq", "corpus": PAIRS},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of runs and one of tasks; nothing is fetched, and what is cached is cached there.

    Weights are redrawn wide enough that tokens differ in their chances.
    """
    folder = tmp_path_factory.mktemp("lm_eval")
    workspace = Workspace(folder / "runs", cache=folder / "cache", device="cpu")
    for name, changes in RUNS.items():
        architecture = {**changes["architecture"], **HEADS}
        spec = {"corpus": TEXT, **changes, "architecture": architecture, "training": TRAINING}
        pb.train_run(spec, name=name, workspace=workspace)
        redraw(load_checkpoint(folder / "runs" / name).folder)
    write_tasks(folder / "tasks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
        patch.setattr("datasets.config.HF_DATASETS_CACHE", folder / "datasets")
        yield folder


def redraw(checkpoint: Path) -> None:
    path = checkpoint / "weights.safetensors"
    tensors = load_file(path)
    for name, tensor in tensors.items():
        drawn = 0.4 * torch.randn(tensor.shape, generator=torch_generator(1, name))
        tensors[name] = 1 + drawn if "norm" in name else drawn
    save_file(tensors, path)
    (checkpoint / "manifest.json").unlink()
    write_manifest(checkpoint)


def model_of(home: Path, name: str, framing: str, n_sequences: int | None = None) -> ParibusLM:
    checkpoint = load_checkpoint(home / "runs" / name)
    return ParibusLM(checkpoint, framing, torch.device("cpu"), n_sequences)


@pytest.fixture(scope="module")
def exported(home: Path) -> dict[str, HFLM]:
    """lm-eval's own model of what `paribus export` writes."""
    models = {}
    for name in ("causal", "spans"):
        folder = home / "exported" / name
        pb.export(home / "runs" / name, folder)
        models[name] = HFLM(str(folder), device="cpu", dtype="float32", batch_size=2)
    return models


def responses(home: Path, model: Any, task: str, **changes: Any) -> list[Any]:
    """What lm-eval keeps of the answers to each item of a task."""
    manager = TaskManager(include_path=str(home / "tasks"), include_defaults=False)
    results = lm_eval.simple_evaluate(
        model=model, tasks=[task], task_manager=manager, bootstrap_iters=0, **changes
    )
    assert results is not None
    answers = []
    for sample in results["samples"][task]:
        for (answer,) in sample["resps"]:
            answers.append(answer)
    return answers


def scores_of(answers: list[Any]) -> list[float]:
    return [answer[0] for answer in answers]


@pytest.mark.parametrize("name", ["causal", "spans"])
def test_plain_choices_are_scored_as_by_the_model_of_lm_eval(
    home: Path, exported: dict[str, HFLM], name: str
) -> None:
    ours = responses(home, model_of(home, name, "plain"), "pick")
    theirs = responses(home, exported[name], "pick")
    assert len(ours) == 16
    assert scores_of(ours) == pytest.approx(scores_of(theirs), abs=CLOSE)
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in theirs]


@pytest.mark.parametrize("name", ["causal", "spans"])
def test_plain_texts_of_any_length_are_scored_as_by_the_model_of_lm_eval(
    home: Path, exported: dict[str, HFLM], name: str
) -> None:
    ours = responses(home, model_of(home, name, "plain"), "follow")
    assert ours == pytest.approx(responses(home, exported[name], "follow"), rel=1e-6, abs=CLOSE)


def test_plain_text_is_continued_as_by_the_model_of_lm_eval(
    home: Path, exported: dict[str, HFLM]
) -> None:
    ours = responses(home, model_of(home, "causal", "plain"), "say")
    assert ours == responses(home, exported["causal"], "say")
    assert len(set(ours)) > 1


def test_plain_text_of_an_encoder_decoder_is_continued_as_by_the_model_of_lm_eval(
    home: Path, exported: dict[str, HFLM]
) -> None:
    """lm-eval counts the context among the new tokens here, unless it is told their number."""
    ours = responses(home, model_of(home, "spans", "plain"), "say")
    theirs = responses(home, exported["spans"], "say", gen_kwargs={"max_length": 7})
    assert ours == theirs
    assert len(set(ours)) > 1


@pytest.mark.parametrize("name", RUNS)
def test_trained_choices_are_scored_as_the_yardstick_scores_them(home: Path, name: str) -> None:
    model = model_of(home, name, "trained")
    requests = []
    for context in ("the cat sat on", "abc abc"):
        for continuation in (" the mat", " a", "b", " the dog that barked"):
            requests.append((context, continuation))
    ours = model.loglikelihood(instances("loglikelihood", requests))
    checkpoint = model.checkpoint
    asked = AskedModel(
        model=model.model,
        objective=checkpoint.objective(),
        tokenizer=checkpoint.tokenizer,
        vocabulary=checkpoint.vocabulary,
        window=trained_window(checkpoint),
    )
    items = [Item(str(number), "", *request) for number, request in enumerate(requests)]
    exact = [-answer.nats for answer in likelihoods(asked, items)]
    assert scores_of(ours) == pytest.approx(exact, abs=CLOSE)


def instances(kind: Any, requests: list[tuple[Any, ...]]) -> list[Instance]:
    made = []
    for number, arguments in enumerate(requests):
        made.append(Instance(request_type=kind, doc={}, arguments=arguments, idx=number))
    return made


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("framing", ["trained", "plain"])
def test_answers_together_are_those_of_each_alone_in_any_order(
    home: Path, name: str, framing: str
) -> None:
    many, one = model_of(home, name, framing), model_of(home, name, framing, 1)
    pairs = [("a b", " c"), ("a b", " d" * 20), ("", "x y z"), ("a b", " e"), ("q" * 30, "r")]
    requests = instances("loglikelihood", pairs)
    together = scores_of(many.loglikelihood(requests))
    alone = [score for request in requests for score, _ in one.loglikelihood([request])]
    assert together == pytest.approx(alone, rel=1e-5, abs=1e-5)
    backwards = scores_of(many.loglikelihood(requests[::-1]))
    assert backwards[::-1] == pytest.approx(together, rel=1e-5, abs=1e-5)
    texts = [(text, {"until": ["q"], "max_gen_toks": 5}) for text in ("a b", "c", "abc abc")]
    asked = instances("generate_until", texts)
    said = many.generate_until(asked)
    assert said == [text for request in asked for text in one.generate_until([request])]
    assert many.generate_until(asked[::-1]) == said[::-1]


@pytest.mark.parametrize("name", RUNS)
def test_a_short_text_is_one_window_and_a_long_one_adds_up(home: Path, name: str) -> None:
    model = model_of(home, name, "trained")
    (short,) = model.loglikelihood_rolling(instances("loglikelihood_rolling", [("abc abc",)]))
    ((exact, _),) = model.loglikelihood(instances("loglikelihood", [("", "abc abc")]))
    assert short == pytest.approx(exact, abs=CLOSE)
    text = "abc bca cab " * 12
    laid = list(model.framing.lay_windows(text))
    assert len(laid) > 1
    targets = [token for item in laid for token in item.target]
    assert targets == model.checkpoint.tokenizer.encode(text)


@pytest.mark.parametrize("name", RUNS)
def test_trained_text_is_continued_as_the_verb_continues_it(home: Path, name: str) -> None:
    model = model_of(home, name, "trained")
    (said,) = model.generate_until(instances("generate_until", [("abc", {"max_gen_toks": 6})]))
    assert said == pb.generate_text(home / "runs" / name, "abc", pb.Sampling(n_tokens=6))


def test_a_model_of_conversations_reads_a_context_as_a_turn(home: Path) -> None:
    workspace = Workspace(home / "runs", cache=home / "cache", device="cpu")
    pb.train_run(conversation_table(), name="turns", workspace=workspace)
    model = model_of(home, "turns", "trained")
    laid = model.framing.lay_pair("abc", " cba")
    assert laid.inputs == tuple(model.checkpoint.encode_prompt("abc"))
    assert laid.inputs != tuple(model.checkpoint.tokenizer.encode("abc"))
    (said,) = model.generate_until(instances("generate_until", [("abc", {"max_gen_toks": 6})]))
    assert said == pb.generate_text(home / "runs/turns", "abc", pb.Sampling(n_tokens=6))
    plain = model_of(home, "turns", "plain").framing.lay_pair("abc", " cba")
    assert plain.inputs == tuple(model.checkpoint.tokenizer.encode("abc"))


def test_draws_of_a_request_differ_when_it_is_repeated(home: Path) -> None:
    model = model_of(home, "causal", "trained")
    settings = {"do_sample": True, "temperature": 1.0, "max_gen_toks": 12}
    first, second = model.generate_until(instances("generate_until", [("abc", settings)] * 2))
    assert first != second


def test_a_setting_that_nothing_obeys_is_refused(home: Path) -> None:
    model = model_of(home, "causal", "trained")
    with pytest.raises(UnsupportedError, match=r"generation_kwargs\.top_p is 0\.5, which is not"):
        model.generate_until(instances("generate_until", [("abc", {"top_p": 0.5})]))
    (said,) = model.generate_until(
        instances("generate_until", [("abc", {"top_p": 1.0, "max_gen_toks": 2})])
    )
    assert said


def test_new_tokens_that_leave_no_room_are_refused(home: Path) -> None:
    model = model_of(home, "causal", "plain")
    with pytest.raises(SpecError, match="256 new tokens are asked for, which leaves no room"):
        model.generate_until(instances("generate_until", [("abc", {})]))


def test_a_model_is_made_from_the_arguments_of_a_command_line(home: Path) -> None:
    model = ParibusLM.create_from_arg_string(
        f"run=causal,runs={home / 'runs'},framing=plain",
        {"batch_size": "auto", "max_batch_size": None, "device": "cpu"},
    )
    assert (model.framing_name, model.n_sequences, model.window) == ("plain", None, 48)
    two = ParibusLM.create_from_arg_obj({"run": home / "runs" / "causal"}, {"batch_size": 2})
    assert (two.framing_name, two.n_sequences) == ("trained", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "model_args has no run; give one, as in run=NAME"),
        ({"pretrained": "gpt2"}, "model_args has 'pretrained'; use run, framing, runs, tokenizer"),
        ({"run": "causal", "framing": "odd"}, "framing is 'odd'; use trained or plain"),
        ({"run": "causal", "batch_size": 0}, "batch_size is 0; use a whole number from 1 up"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    home: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        ParibusLM.create_from_arg_obj({**arguments, "runs": home / "runs"})


def test_a_response_cache_serves_one_model_alone(home: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    first = responses(home, model_of(home, "causal", "trained"), "pick", use_cache=cache)
    again = responses(home, model_of(home, "causal", "trained"), "pick", use_cache=cache)
    assert scores_of(again) == scores_of(first)
    for name, framing in (("prefix", "trained"), ("causal", "plain")):
        with pytest.raises(RecordError, match="holds answers of another model, framing or window"):
            responses(home, model_of(home, name, framing), "pick", use_cache=cache)
