"""Designs that look controlled and are not, one file a topic.

Each test holds a sly design as TOML, what must be said of it, and beside it an honest twin that is
still accepted. A design need only say what is its own: `sly_designs` has the rest.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sly_designs import plan_text

from paribus.design import Plan

PlanDesign = Callable[[str], Plan]


@pytest.fixture(scope="session")
def plan_design(study_cache: Path) -> PlanDesign:
    """Plans a design that is given as TOML: returns the plan, or raises what `plan` refuses
    with (SpecError: exit 2; ConfoundError: exit 3).
    """
    return partial(plan_text, cache=study_cache)
