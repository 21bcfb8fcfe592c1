"""Layer norm and RMS norm."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.spec import LayerNorm, RMSNorm


class Norm(nn.Module):
    """Rows brought to unit scale, times a gain; layer norm also takes the mean off and may add a bias."""

    def __init__(self, width: int, spec: LayerNorm | RMSNorm):
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width)) if isinstance(spec, LayerNorm) and spec.bias else None

    def forward(self, rows: Tensor) -> Tensor:
        """In the precision of its rows; under autocast it is computed in float32 all the same."""
        if isinstance(self.spec, RMSNorm):
            return F.rms_norm(rows, self.weight.shape, self.weight, self.spec.eps).to(rows.dtype)
        return F.layer_norm(rows, self.weight.shape, self.weight, self.bias, self.spec.eps).to(rows.dtype)
