"""How is text made?"""

from paribus.generate.continuation import continued as continued
from paribus.generate.continuation import require_sampling as require_sampling
from paribus.generate.continuation import speaks as speaks
