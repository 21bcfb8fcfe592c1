"""Accumulation is invisible: one batch of 8 equals 4 × 2 with unequal target counts."""

import pytest
import torch
from copy_task import (
    VOCABULARY,
    copy_batch,
    copy_learner,
    pose_copy_task,
    slice_batch,
    tiny_copy_model,
)

from paribus.batch import TextBatch
from paribus.errors import SpecError
from paribus.masks import Full
from paribus.model import Transformer
from paribus.objectives import require_permitted
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    LastToken,
    MaskedLM,
    Objective,
    PrefixLM,
    Seq2Seq,
    SpanCorruption,
)

OBJECTIVES = [CausalLM(), PrefixLM(), MaskedLM(), LastToken(), SpanCorruption(), UL2(), Seq2Seq()]
PRESETS = ["gpt2", "bert", "unilm", "t5", "mixtral", "deepseek-v3"]


def allowed(objective: Objective, model: Transformer) -> bool:
    if model.encoder is not None:
        return objective.kind not in {"causal", "masked", "last_token"}
    return objective.kind in {"masked", "last_token"} or model.architecture.mask != Full()


def pairs(k: int) -> TextBatch:
    """Targets of 2 to 9 words, so that no two parts score equally many."""
    text = copy_batch(k)
    begins = torch.tensor([10, 9, 8, 7, 6, 5, 4, 3])
    ends = begins + torch.tensor([2, 9, 3, 8, 4, 7, 5, 6])
    real = torch.arange(20) < ends[:, None]
    tokens = torch.where(real, text.tokens_BT, VOCABULARY.pad)
    return TextBatch(k, text.rows_B, tokens, text.documents_BT, text.sentences_BT, real, begins)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.kind)
def test_one_batch_of_8_equals_4_of_2(objective: Objective, preset: str) -> None:
    whole, parts = (tiny_copy_model(preset, {"dropout": 0.1}).double() for _ in range(2))
    if not allowed(objective, whole):
        with pytest.raises(SpecError, match="objective"):
            require_permitted(objective, whole.spec, 20)
        return
    one, four = copy_learner(whole), copy_learner(parts, n_micro_batches=4)
    for k in range(3):
        text = pairs(k) if isinstance(objective, Seq2Seq) else copy_batch(k)
        entire = pose_copy_task(objective, whole, text)
        slices = [
            pose_copy_task(objective, parts, slice_batch(text, n, n + 2)) for n in (0, 2, 4, 6)
        ]
        sums, split = one.step(k, [entire]), four.step(k, slices)
        for count in (
            lambda problem: problem.inputs.n_tokens,
            lambda problem: problem.inputs.n_positions,
        ):
            assert sum(map(count, slices)) == count(entire)
        for name in ("nats_sum", "target_count", "byte_count", "gradient_norm"):
            torch.testing.assert_close(
                getattr(split, name).double(), getattr(sums, name).double(), rtol=1e-9, atol=1e-9
            )
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], tensor, rtol=1e-6, atol=1e-9, msg=name)
