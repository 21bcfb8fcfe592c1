"""How is text made?"""

from paribus.generate.sampling import Sampling as Sampling
from paribus.generate.sampling import can_generate as can_generate
from paribus.generate.sampling import continuation as continuation
