"""How is text made?"""

from paribus.generate.continuation import continued as continued
from paribus.generate.continuation import speaks as speaks
