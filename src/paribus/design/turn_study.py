"""One conversation in several architectures: counted, and held with each where that is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from paribus.design.turn_arms import ConversationArm
from paribus.errors import SpecError
from paribus.generate.turns import MeasuredTurns, TurnSpeaker, measure_turns
from paribus.model import Transformer, build
from paribus.record.environment import current_environment
from paribus.record.turn_study import ArmTurns, MeasuredTurn, TurnCosts, TurnStudy
from paribus.runtime import cudnn_version, device_kind, select_device
from paribus.spec import architecture_fingerprint, resolve
from paribus.spec.conversation import Conversation
from paribus.spec.price import count_parameters
from paribus.spec.turn_price import TurnPrice, price_turns

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEFAULT_REPEATS = 9


@dataclass(frozen=True)
class TurnTiming:
    """How often a conversation is held, on which device and in which precision; by default the
    best device, in bfloat16 on CUDA and float32 elsewhere.
    """

    n_repeats: int = DEFAULT_REPEATS
    device: str | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise SpecError(f"dtype is {self.dtype!r}; use {', '.join(DTYPES)}")


@dataclass(frozen=True)
class _Machine:
    """The device and precision that were chosen."""

    device: torch.device
    dtype: str


def _machine(timing: TurnTiming) -> _Machine:
    device = select_device(timing.device)
    if timing.dtype is not None:
        return _Machine(device, timing.dtype)
    return _Machine(device, "bfloat16" if device.type == "cuda" else "float32")


@dataclass(frozen=True)
class TurnQuestion:
    """What a study of conversations asks: its words, the conversation, and what is made equal."""

    question: str
    conversation: Conversation
    match: str = "nothing"


def study_turns(
    arms: Sequence[ConversationArm], question: TurnQuestion, timing: TurnTiming | None = None
) -> TurnStudy:
    """The costs of every turn in every arm. The first arm is the baseline.

    Without a timing everything is counted and nothing is built, at two bytes a cached value.
    """
    conversation = question.conversation
    machine = None if timing is None else _machine(timing)
    bytes_per_value = 2 if machine is None else DTYPES[machine.dtype].itemsize
    prices = []
    for arm in arms:
        spec = resolve(arm.architecture)
        prices.append(price_turns(spec, arm.custom, conversation, bytes_per_value))
    measured: Sequence[MeasuredTurns | None] = [None] * len(arms)
    if timing is not None and machine is not None:
        measured = _measure(arms, conversation, machine, timing.n_repeats)
    arm_turns = []
    for arm, own_prices, own_measured in zip(arms, prices, measured, strict=True):
        arm_turns.append(_arm_turns(arm, own_prices, own_measured))
    return TurnStudy(
        question=question.question,
        n_turns=conversation.n_turns,
        n_user=conversation.n_user,
        n_answer=conversation.n_answer,
        bytes_per_value=bytes_per_value,
        match=question.match,
        arms=tuple(arm_turns),
        n_repeats=0 if timing is None else timing.n_repeats,
        dtype=None if machine is None else machine.dtype,
        environment=None if machine is None else _environment(machine.device),
    )


def _measure(
    arms: Sequence[ConversationArm], conversation: Conversation, machine: _Machine, n_repeats: int
) -> list[MeasuredTurns]:
    """What each arm was measured to cost; arms of one architecture share a model."""
    models: dict[str, Transformer] = {}
    speakers = []
    for arm in arms:
        key = arm.name + architecture_fingerprint(resolve(arm.architecture))
        if key not in models:
            models[key] = _model(arm, machine)
        speakers.append(TurnSpeaker(models[key], arm.custom))
    return measure_turns(speakers, conversation, n_repeats)


def _model(arm: ConversationArm, machine: _Machine) -> Transformer:
    """The model of an arm: drawn, or restored from its checkpoint."""
    dtype = DTYPES[machine.dtype]
    if arm.checkpoint is not None:
        return arm.checkpoint.restore(machine.device, dtype).eval()
    return build(arm.architecture, device=machine.device, dtype=dtype).eval()


def _environment(device: torch.device) -> dict[str, object]:
    return current_environment(torch.get_num_threads(), device_kind(device), cudnn_version(device))


def _arm_turns(
    arm: ConversationArm, prices: Sequence[TurnPrice], measured: MeasuredTurns | None
) -> ArmTurns:
    turns = []
    for place, price in enumerate(prices):
        turns.append(_turn_costs(price, None if measured is None else (measured, place)))
    return ArmTurns(
        name=arm.label,
        custom=arm.custom,
        n_parameters=count_parameters(resolve(arm.architecture)).total,
        architecture=arm.architecture.model_dump(mode="json"),
        moved_fields=arm.moved_fields,
        turns=tuple(turns),
    )


def _turn_costs(price: TurnPrice, measured: tuple[MeasuredTurns, int] | None) -> TurnCosts:
    return TurnCosts(
        turn=price.turn,
        n_prompt=price.n_prompt,
        n_read=price.n_read,
        n_read_again=price.n_read_again,
        first_token_flops_dense=price.first_token_flops.dense,
        first_token_flops_visible=price.first_token_flops.visible,
        turn_flops_dense=price.turn_flops.dense,
        turn_flops_visible=price.turn_flops.visible,
        cache_bytes=price.cache_bytes,
        reused_bytes=price.reused_bytes,
        measured=None if measured is None else _measured_turn(price, *measured),
    )


def _measured_turn(price: TurnPrice, measured: MeasuredTurns, place: int) -> MeasuredTurn:
    counts = measured.counts[place]
    n_new = price.n_read - price.n_read_again
    first_token, next_token = [], []
    for repeat in measured.seconds:
        first_token.append(repeat[place].first_token)
        if repeat[place].next_token is not None:
            next_token.append(repeat[place].next_token)
    return MeasuredTurn(
        n_read=counts.n_read,
        n_read_again=counts.n_read - n_new,
        cache_bytes=counts.cache_bytes,
        first_token_seconds=tuple(first_token),
        next_token_seconds=tuple(next_token),
    )
