"""How is attention computed? Dense is the truth; every other kernel is held against it."""

from paribus.model.kernels.attention_mask import AttentionMask as AttentionMask
from paribus.model.kernels.dispatch import Kernel as Kernel
from paribus.model.kernels.dispatch import KernelChoice as KernelChoice
from paribus.model.kernels.dispatch import ScoreChange as ScoreChange
from paribus.model.kernels.dispatch import attend as attend
from paribus.model.kernels.dispatch import choose_kernel as choose_kernel
from paribus.model.kernels.dispatch import parse_kernel as parse_kernel
from paribus.model.kernels.observed_attention import attention_scores as attention_scores
from paribus.model.kernels.observed_attention import attention_weights as attention_weights
