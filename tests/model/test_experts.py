import math

import pytest
import torch
import torch.nn.functional as F

from paribus.model import Forward, build
from paribus.model.experts import (
    ExpertLoad,
    ExpertRouter,
    RoutedExperts,
    balance_loss,
    updated_selection_bias,
)
from paribus.spec import BatchBalance, Experts, NoBalance, Router, SequenceBalance
from paribus.spec import load as load_preset


def _experts(d_model=7, **given):
    spec = Experts(**{"n_experts": 5, "n_active": 2, "d_expert": 11, **given})
    experts = RoutedExperts(d_model, spec)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
        for buffer in experts.buffers():
            buffer.zero_()
    return experts


def _hidden(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5))


def _plainly(experts, hidden):
    """Token by token, expert by expert, as the papers write it."""
    spec = experts.spec
    activation = {"silu": F.silu, "relu": F.relu}[spec.activation]

    def fed(x, gate, up, down):
        inside = activation(gate @ x) * (up @ x) if spec.gated else activation(up @ x)
        return down @ inside

    out = torch.zeros_like(hidden)
    for b in range(hidden.shape[0]):
        for t in range(hidden.shape[1]):
            x = hidden[b, t]
            logits = experts.router.weight @ x
            scores = logits.softmax(0) if spec.router.scores == "softmax" else torch.sigmoid(logits)
            chosen = sorted(range(spec.n_experts), key=lambda n: -scores[n].item())[: spec.n_active]
            total = sum(scores[n] for n in chosen) if spec.router.normalise else 1.0
            for n in chosen:
                gate = experts.gate[n] if spec.gated else None
                answer = fed(x, gate, experts.up[n], experts.down[n])
                out[b, t] += spec.router.scale * scores[n] / total * answer
            if experts.shared is not None:
                shared = experts.shared
                gate = shared.gate.weight if spec.gated else None
                out[b, t] += fed(x, gate, shared.up.weight, shared.down.weight)
    return out


KINDS = {
    "mixtral": {},
    "deepseek": {"n_shared": 2, "router": Router(scores="sigmoid", scale=2.5)},
    "switch": {
        "n_active": 1,
        "activation": "relu",
        "gated": False,
        "router": Router(normalise=False),
    },
}


@pytest.fixture
def grouped_calls(monkeypatch):
    calls = []
    true = F.grouped_mm

    def spy(*arguments, **named):
        calls.append(arguments[0].shape)
        return true(*arguments, **named)

    monkeypatch.setattr(F, "grouped_mm", spy)
    return calls


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("d_model", "d_expert", "aligned"),
    [(7, 11, False), (4, 4, True), (8, 12, True), (8, 11, False)],
)
def test_grouped_equals_gathered_equals_a_plain_loop(
    kind, d_model, d_expert, aligned, grouped_calls
):
    experts = _experts(d_model, d_expert=d_expert, **KINDS[kind])
    hidden = _hidden(3, 5, d_model)
    expected = _plainly(experts, hidden)
    grouped, load = experts(hidden, None)
    # A grouped product wants rows of 16 bytes; other sizes go expert by expert.
    assert len(grouped_calls) == (0 if not aligned else 3 if experts.spec.gated else 2)
    gathered, other_load = experts(hidden, None, Forward(compute="gathered"))
    torch.testing.assert_close(grouped, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gathered, expected, atol=1e-5, rtol=1e-5)
    for left, right in zip(load, other_load, strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize(("d_model", "d_expert", "aligned"), [(7, 11, False), (8, 12, True)])
def test_gradients_of_grouped_and_gathered_agree(d_model, d_expert, aligned, grouped_calls):
    experts = _experts(d_model, d_expert=d_expert, **KINDS["deepseek"])
    gradients = []
    for compute in ("grouped", "gathered"):
        hidden = _hidden(3, 5, d_model).requires_grad_()
        out = experts(hidden, None, Forward(compute=compute))[0]
        gradients.append(torch.autograd.grad(out.square().sum(), [hidden, *experts.parameters()]))
    assert bool(grouped_calls) == aligned
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)


def test_an_expert_nobody_chose_has_no_gradient():
    experts = _experts(d_model=8, d_expert=12)
    with torch.no_grad():
        experts.router.weight[3] = 0.0
        experts.router.weight[3, 0] = -100.0
    hidden = _hidden(2, 3, 8)
    hidden[..., 0] = 1.0
    out, load = experts(hidden, None)
    assert load.choices_BN[:, 3].tolist() == [0, 0]
    out.sum().backward()
    assert experts.up.grad[3].abs().max() == 0
    assert experts.up.grad.abs().max() > 0


def test_grouped_products_follow_autocast():
    experts = _experts(d_model=8, d_expert=16)
    hidden = _hidden(2, 3, 8)
    plain = experts(hidden, None)[0]
    with torch.autocast("cpu", torch.bfloat16):
        choice, scores = experts.router(hidden.flatten(0, 1))
        out = experts(hidden, None)[0]
    assert choice.gates.dtype == scores.dtype == torch.float32  # the router stays in float32
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), plain, atol=0.1, rtol=0.1)


# The choice


def _router(logits_MN, **given):
    """A router that gives these logits to one-hot tokens."""
    logits = torch.tensor(logits_MN)
    n_tokens, n_experts = logits.shape
    router = ExpertRouter(n_tokens, Experts(**{"n_experts": n_experts, "n_active": 2, **given}))
    with torch.no_grad():
        router.weight.copy_(logits.T)
    if router.selection_bias is not None:
        router.selection_bias.zero_()
    return router, torch.eye(n_tokens)


def test_gates_are_the_chosen_scores_normalised_and_scaled():
    logits = [[1.0, 3.0, 2.0, 0.0]]
    router, tokens = _router(logits, router=Router(scale=2.5))
    choice, scores = router(tokens)
    total = math.e**3 + math.e**2
    assert choice.experts.tolist() == [[1, 2]]
    assert choice.gates[0].tolist() == pytest.approx(
        [2.5 * math.e**3 / total, 2.5 * math.e**2 / total]
    )
    everything = sum(math.exp(x) for x in logits[0])
    assert scores[0].tolist() == pytest.approx([math.exp(x) / everything for x in logits[0]])


def test_gates_may_stay_probabilities():
    router, tokens = _router([[1.0, 3.0, 2.0, 0.0]], n_active=1, router=Router(normalise=False))
    everything = sum(math.exp(x) for x in (1, 3, 2, 0))
    assert router(tokens)[0].gates.tolist() == [[pytest.approx(math.e**3 / everything)]]


def test_sigmoid_scores_are_normalised_only_for_the_balance():
    logits = [1.0, 3.0, -2.0]
    router, tokens = _router([logits], n_active=1, router=Router(scores="sigmoid", normalise=False))
    choice, scores = router(tokens)
    sigmoid = [1 / (1 + math.exp(-x)) for x in logits]
    assert choice.gates.tolist() == [[pytest.approx(sigmoid[1])]]
    assert scores[0].tolist() == pytest.approx([s / sum(sigmoid) for s in sigmoid])


def test_the_selection_bias_moves_the_choice_and_never_the_gates():
    logits = [[2.0, 1.0, 0.0, -1.0]]
    router, tokens = _router(logits, router=Router(scores="sigmoid", bias_rate=0.001))
    assert router(tokens)[0].experts.tolist() == [[0, 1]]
    router.selection_bias.copy_(torch.tensor([-5.0, 0.0, 0.0, 5.0]))
    choice, _ = router(tokens)
    assert choice.experts.tolist() == [[3, 1]]
    last, second = 1 / (1 + math.e), 1 / (1 + math.exp(-1))
    assert choice.gates[0].tolist() == pytest.approx(
        [last / (last + second), second / (last + second)]
    )


def test_without_a_rate_there_is_no_selection_bias():
    router, _ = _router([[1.0, 2.0]])
    assert router.selection_bias is None
    assert not list(router.buffers())


# Three groups of two; their merit is the sum of their two best.
GROUPED = [
    [
        5.0,
        -9.0,
        3.0,
        2.9,
        2.0,
        1.9,
    ],  # merit by sigmoid: 0.99, 1.90, 1.75: the best expert's group is the worst
    [-1.0, -2.0, -3.0, -4.0, 1.0, 0.0],
]


def test_experts_are_chosen_within_the_best_groups():
    router = Router(scores="sigmoid", n_groups=3, n_active_groups=1)
    chooser, tokens = _router(GROUPED, router=router)
    assert chooser(tokens)[0].experts.tolist() == [[2, 3], [4, 5]]
    chooser, tokens = _router(
        GROUPED, n_active=3, router=router.model_copy(update={"n_active_groups": 2})
    )
    assert chooser(tokens)[0].experts.tolist() == [[2, 3, 4], [4, 5, 0]]
    chooser, tokens = _router(GROUPED, router=router.model_copy(update={"n_active_groups": 3}))
    assert chooser(tokens)[0].experts.tolist() == [[0, 2], [4, 5]]


def test_the_selection_bias_moves_groups_too():
    chooser, tokens = _router(
        GROUPED, router=Router(scores="sigmoid", n_groups=3, n_active_groups=1, bias_rate=0.1)
    )
    chooser.selection_bias.copy_(torch.tensor([0.0, -0.5, -1.0, -1.0, -3.0, -3.0]))
    # Token 0's groups: 0.49, −0.10, −4.25. Expert 1 ranks below zero, yet only its group is chosen
    # from.
    assert chooser(tokens)[0].experts.tolist() == [[0, 1], [0, 1]]


def test_a_group_of_one_expert_is_judged_by_it():
    chooser, tokens = _router([[1.0, 3.0, 2.0]], router=Router(n_groups=3, n_active_groups=2))
    assert chooser(tokens)[0].experts.tolist() == [[1, 2]]


def test_the_gradient_reaches_the_router_through_the_gates():
    router, tokens = _router([[1.0, 3.0, 2.0]])
    choice, _ = router(tokens)
    choice.gates[0, 0].backward()
    assert router.weight.grad[0].item() == pytest.approx(0, abs=1e-7)  # not chosen
    assert router.weight.grad[1].item() > 0 > router.weight.grad[2].item()


# Loads and balance


def test_loads_count_choices_per_sequence_without_padding():
    experts = _experts()
    hidden = _hidden(3, 5, 7)
    real = torch.tensor([[True] * 5, [True, True, False, False, False], [False] * 5])
    load = experts(hidden, real)[1]
    choice, scores = experts.router(hidden.flatten(0, 1))
    for b in range(3):
        there = [b * 5 + t for t in range(5) if real[b, t]]
        chosen = [n for m in there for n in choice.experts[m].tolist()]
        assert load.choices_BN[b].tolist() == [chosen.count(n) for n in range(5)]
        torch.testing.assert_close(
            load.scores_BN[b], sum((scores[m] for m in there), torch.zeros(5))
        )
        assert load.tokens_B[b] == len(there)
    whole = experts(hidden, None)[1]
    assert whole.tokens_B.tolist() == [5, 5, 5]
    assert whole.choices_BN.sum().item() == 3 * 5 * 2


LOADS = [
    ExpertLoad(
        torch.tensor([[3.0, 1, 0], [2.0, 2, 2]]),
        torch.tensor([[1.0, 0.6, 0.4], [1.2, 1.0, 0.8]]),
        torch.tensor([2.0, 3.0]),
    ),
    ExpertLoad(
        torch.tensor([[0.0, 2, 2], [6.0, 0, 0]]),
        torch.tensor([[0.2, 0.8, 1.0], [2.6, 0.2, 0.2]]),
        torch.tensor([2.0, 3.0]),
    ),
]


def test_the_sequence_balance_is_the_mean_over_sequences_of_deepseeks_loss():
    spec = Experts(n_experts=3, n_active=2, balance=SequenceBalance(weight=0.5))
    expected = 0.0
    for load in LOADS:
        for choices, scores, tokens in zip(*(part.tolist() for part in load), strict=True):
            shares = [3 / (2 * tokens) * count for count in choices]  # f_i of the paper
            means = [score / tokens for score in scores]  # P_i
            expected += 0.5 * sum(f * p for f, p in zip(shares, means, strict=True)) / 2
    assert balance_loss(LOADS, spec).item() == pytest.approx(expected, rel=1e-6)


def test_the_batch_balance_is_switchs_loss_over_all_tokens():
    spec = Experts(n_experts=3, n_active=2, balance=BatchBalance(weight=0.5))
    first = 3 * (5 / 5 * 2.2 / 5 + 3 / 5 * 1.6 / 5 + 2 / 5 * 1.2 / 5)
    second = 3 * (6 / 5 * 2.8 / 5 + 2 / 5 * 1.0 / 5 + 2 / 5 * 1.2 / 5)
    assert balance_loss(LOADS, spec).item() == pytest.approx(0.5 * (first + second), rel=1e-6)


def test_a_perfectly_even_router_pays_the_weight():
    # 6 tokens, two experts each
    load = ExpertLoad(torch.full((1, 4), 3.0), torch.full((1, 4), 1.5), torch.tensor([6.0]))
    spec = Experts(n_experts=4, n_active=2, balance=SequenceBalance(weight=0.01))
    assert balance_loss([load], spec).item() == pytest.approx(0.01)


def test_without_balance_there_is_no_loss():
    assert balance_loss(LOADS, Experts(n_experts=3, n_active=2, balance=NoBalance())) is None


def test_a_sequence_of_padding_alone_costs_nothing():
    empty = ExpertLoad(torch.zeros(1, 3), torch.zeros(1, 3), torch.zeros(1))
    for balance in (SequenceBalance(), BatchBalance()):
        assert balance_loss([empty], Experts(n_experts=3, n_active=2, balance=balance)).item() == 0


def test_the_loss_pushes_scores_of_crowded_experts_down():
    experts = _experts(balance=SequenceBalance(weight=1.0))
    load = experts(_hidden(2, 5, 7), None)[1]
    loss = balance_loss([load], experts.spec)
    (slope,) = torch.autograd.grad(loss, load.scores_BN)
    assert not load.choices_BN.requires_grad
    torch.testing.assert_close(slope, 5 / 2 * load.choices_BN / 25 / 2)


def test_the_bias_moves_up_for_the_idle_and_down_for_the_crowded():
    moved = updated_selection_bias(
        torch.tensor([0.5, 0.0, -0.25, 1.0]), torch.tensor([7.0, 3.0, 5.0, 5.0]), 0.125
    )
    assert moved.tolist() == [0.375, 0.125, -0.25, 1.0]


def test_aligned_experts_run_in_double_too():
    spec = load_preset(
        "mixtral",
        n_layers=1,
        d_model=8,
        n_heads=2,
        n_kv_heads=1,
        n_vocab=11,
        max_length=7,
        changes={"feed_forward.d_expert": 16},
    )
    tokens = torch.arange(5)[None]
    single, double = build(spec)(tokens), build(spec, dtype=torch.float64)(tokens)
    torch.testing.assert_close(single.logits_BTV.double(), double.logits_BTV, atol=1e-5, rtol=1e-4)
