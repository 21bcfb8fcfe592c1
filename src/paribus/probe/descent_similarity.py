"""In-context learning as descent: is a prompt like a step of fine-tuning? (Dai 2022, 2212.10559)

The same query examples are read three times: alone (zero-shot), after demonstrations (in context),
and alone by a model that was fine-tuned on the demonstrations. What is compared belongs to the last
token of each query. N examples, L layers, H heads, S keys. Definitions are those of the authors'
code, which agrees with the paper's equations.
"""

import numpy as np
import scipy
import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.runtime import torch_generator

MIN_EXAMPLES = 20


def attention_output_similarity(
    zero_shot_NLD: Tensor, in_context_NLD: Tensor, tuned_NLD: Tensor
) -> Tensor:
    """SimAOU, [L]: the cosine of the two updates, in context and tuned, of normalised attention
    outputs; mean over examples.
    """
    _require_examples(len(zero_shot_NLD))
    start = F.normalize(zero_shot_NLD, dim=-1)
    in_context_update = F.normalize(in_context_NLD, dim=-1) - start
    tuned_update = F.normalize(tuned_NLD, dim=-1) - start
    return _mean_cosine(in_context_update, tuned_update)


def random_update_similarity(zero_shot_NLD: Tensor, in_context_NLD: Tensor, seed: int) -> Tensor:
    """SimAOU, [L], if the tuned update had a direction by lot: the baseline, near 0.

    Dai's code draws it with positive entries alone; here it is normal, without a preferred side.
    """
    _require_examples(len(zero_shot_NLD))
    update = F.normalize(in_context_NLD, dim=-1) - F.normalize(zero_shot_NLD, dim=-1)
    generator = torch_generator(seed, "descent similarity", "random update")
    drawn = torch.randn(update.shape, generator=generator, dtype=torch.float64)
    return _mean_cosine(update, drawn.to(update))


def attention_map_similarity(in_context_NLHS: Tensor, other_NLHS: Tensor) -> Tensor:
    """SimAM, [L]: the cosine of the scores (before softmax) that the last token gives to the
    tokens of its query; mean over heads and examples.

    Other scores are the zero-shot ones (before tuning) or the tuned ones (after). Keys that a
    shorter query does not have hold 0 in both.
    """
    _require_examples(len(in_context_NLHS))
    return F.cosine_similarity(in_context_NLHS, other_NLHS, dim=-1).mean((0, 2))


def training_token_scores(tuned_query_NLD: Tensor, training_queries_LSD: Tensor) -> Tensor:
    """How much a tuned model attends to each token it was tuned on, [N, L, S]: the product of its
    query with theirs, over all heads.

    It is Dai's stand-in, for a tuned model does not read its training tokens: what a step of
    descent adds to an output is a sum over training tokens, weighted by such products.
    """
    return torch.einsum("nld,lsd->nls", tuned_query_NLD, training_queries_LSD)


def attention_rank_correlation(in_context_NLS: Tensor, tuned_NLS: Tensor) -> Tensor:
    """Kendall's tau, [L], between attention to the demonstrations' tokens in context (summed over
    heads) and attention to them as training tokens; mean over examples.
    """
    _require_examples(len(in_context_NLS))
    in_context, tuned = in_context_NLS.cpu().numpy(), tuned_NLS.cpu().numpy()
    n_examples, n_layers = in_context.shape[:2]
    taus = np.zeros((n_examples, n_layers))
    for example, layer in np.ndindex(n_examples, n_layers):
        taus[example, layer], _ = np.asarray(
            scipy.stats.kendalltau(in_context[example, layer], tuned[example, layer])
        )
    return torch.from_numpy(taus.mean(0))


def random_rank_correlation(in_context_NLS: Tensor, seed: int) -> Tensor:
    """Kendall's tau, [L], against attention by lot: the baseline, near 0."""
    generator = torch_generator(seed, "descent similarity", "random attention")
    drawn = torch.rand(in_context_NLS.shape, generator=generator, dtype=torch.float64)
    return attention_rank_correlation(in_context_NLS, drawn)


def recall_of_tuned(
    zero_shot_right_N: Tensor, in_context_right_N: Tensor, tuned_right_N: Tensor
) -> float | None:
    """Rec2FTP: of the examples that tuning corrects, the share that the prompt corrects, too; None
    if tuning corrects none.
    """
    _require_examples(len(zero_shot_right_N))
    corrected = ~zero_shot_right_N & tuned_right_N
    if not corrected.any():
        return None
    return in_context_right_N[corrected].double().mean().item()


def _mean_cosine(left_NLD: Tensor, right_NLD: Tensor) -> Tensor:
    return F.cosine_similarity(left_NLD, right_NLD, dim=-1, eps=1e-20).mean(0)


def _require_examples(n: int) -> None:
    if n < MIN_EXAMPLES:
        raise UnsupportedError(
            f"the similarity of a prompt and a step of fine-tuning was asked of {n} query"
            f" examples, too few for a mean; give at least {MIN_EXAMPLES}"
        )
