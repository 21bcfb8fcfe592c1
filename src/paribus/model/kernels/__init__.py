"""How is attention computed? Dense is the truth; every other kernel is held against it."""

from paribus.model.kernels.choice import Kernel as Kernel
from paribus.model.kernels.choice import Wanted as Wanted
from paribus.model.kernels.choice import attend as attend
from paribus.model.kernels.choice import choose as choose
from paribus.model.kernels.choice import kernel_named as kernel_named
from paribus.model.kernels.view import View as View
