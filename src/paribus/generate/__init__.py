"""How is text made?"""

from paribus.generate.sampling import can_generate as can_generate
from paribus.generate.sampling import continuation as continuation
from paribus.generate.sampling import require_sampling as require_sampling
