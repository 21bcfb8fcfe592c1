"""The share of the learning rate that a parameter has: 1, but where the initialisation says
otherwise.
"""

from __future__ import annotations

from paribus.spec.architecture import MupInit
from paribus.spec.mup import BASE_WIDTH, EPS_FACTOR
from paribus.spec.parameters import Parameter, Role, parameters
from paribus.spec.resolved import ResolvedArchitecture

# matrices whose inputs are as many as the model is wide, or more
WIDE_ROLES: tuple[Role, ...] = ("query", "inward", "residual", "router", "head")


def rate_share(parameter: Parameter, spec: ResolvedArchitecture) -> float:
    """A parameter's learning rate as a share of the written one.

    Under `mup`, matrices have base/fan_in; tables, gains and biases have 1.
    """
    if isinstance(spec.init, MupInit) and parameter.role in WIDE_ROLES:
        return BASE_WIDTH / parameter.shape[-1]
    return 1.0


def adam_eps_factor(spec: ResolvedArchitecture) -> float:
    """What AdamW's eps is multiplied by."""
    if isinstance(spec.init, MupInit):
        return EPS_FACTOR
    return 1.0


def role_rate_shares(spec: ResolvedArchitecture) -> dict[Role, tuple[float, ...]]:
    """The shares of the rate that parameters of each role have, smallest first."""
    shares: dict[Role, set[float]] = {}
    for parameter in parameters(spec).values():
        shares.setdefault(parameter.role, set()).add(rate_share(parameter, spec))
    return {role: tuple(sorted(own)) for role, own in shares.items()}
