"""The share of the learning rate that a parameter has: 1, but where the initialisation says
otherwise.
"""

from __future__ import annotations

from paribus.spec.architecture import Architecture, MupInit
from paribus.spec.mup import BASE_WIDTH, BEYOND_THE_PAPER, EPS_FACTOR, mup_note, uses_mup
from paribus.spec.parameters import Parameter, Role, parameters
from paribus.spec.resolved import ResolvedArchitecture, resolve

REACH_PATH = "reach of mup"  # how far the paper goes
WITHIN_THE_PAPER = "within the paper"

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


def describe_role_rates(architecture: Architecture) -> dict[str, str]:
    """The rate of each role as a share of the written one, AdamW's eps, and how far the paper of
    the parametrisation goes, as the control table names them.
    """
    spec = resolve(architecture)
    values: dict[str, str] = {}
    for role, shares in role_rate_shares(spec).items():
        values[f"rate of {role} weights"] = ", ".join(f"× {share:g}" for share in shares)
    values["eps of adamw"] = f"× {adam_eps_factor(spec):g}"
    if uses_mup(architecture):
        is_beyond = mup_note(architecture) is not None
        values[REACH_PATH] = BEYOND_THE_PAPER if is_beyond else WITHIN_THE_PAPER
    return values
