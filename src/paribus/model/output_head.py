"""From the last states to logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.model.feed_forward import apply_activation
from paribus.model.linear import JoinedWeights
from paribus.model.norm import Norm
from paribus.spec import ResolvedArchitecture


class OutputHead(nn.Module):
    """From states to logits; a tied head borrows the embedding's table."""

    def __init__(self, spec: ResolvedArchitecture):
        super().__init__()
        self.spec = spec.head
        self.scale = float(spec.head.scale)
        has_transform = spec.head.transform is not None
        if has_transform:
            self.transform = nn.Linear(spec.d_model, spec.d_model)
        else:
            self.transform = None
        self.norm = Norm(spec.d_model, spec.norm) if has_transform else None
        self.weight: nn.Parameter | None
        self.bias: nn.Parameter | None
        if spec.head.tied:
            table = None
        else:
            table = nn.Parameter(torch.empty(spec.n_vocab, spec.d_model))
        self.register_parameter("weight", table)
        self.register_parameter(
            "bias", nn.Parameter(torch.empty(spec.n_vocab)) if spec.head.bias else None
        )

    def forward(
        self, states_BTD: Tensor, embedding_VD: Tensor, weights: JoinedWeights | None = None
    ) -> Tensor:
        inputs = self.transformed(states_BTD)
        table_VD = embedding_VD if self.weight is None else self.weight
        if weights is None:
            return F.linear(inputs, table_VD, self.bias)
        return weights.table_product(inputs, table_VD, self.bias)

    def transformed(self, states_BTD: Tensor) -> Tensor:
        """The states as they are multiplied with the output table."""
        if self.transform is not None and self.norm is not None and self.spec.transform is not None:
            states_BTD = self.norm(
                apply_activation(self.transform(states_BTD), self.spec.transform)
            )
        if self.scale == 1.0:
            return states_BTD
        return states_BTD * self.scale
