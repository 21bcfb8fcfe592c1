"""What figures of probes show and cannot show, in plain words."""

from __future__ import annotations

from collections.abc import Mapping

DEFINITIONS = "Definitions: docs/probes.md."
SPECTRA_CAPTION = (
    "Singular values of attention over the largest, by their number, on logarithmic axes: the"
    " median over heads, and a band from the lowest to the highest tenth. A line that falls late"
    " uses many directions. Of several runs each line is the mean over layers. The mask and the"
    " scale of the scores both move the spectrum, so masks are compared at equal scale; a flatter"
    " spectrum is not a better model."
)
LOAD_CAPTION = (
    "How often each expert is chosen, over what it would be if all were chosen alike; the dashed"
    " line is 1. It is of held-out text: a load of 0 here may be another on other text, and an"
    " even load does not show that experts differ in what they do."
)
DOMAIN_CAPTION = (
    "The share of a domain's tokens that choose each expert. Columns that look alike in all rows"
    " do not tell domains apart. A domain that the run was not trained on is merely foreign text,"
    " and a preference does not show that the expert is needed there."
)
# by probe: the quantities that are drawn
CAPTIONS: Mapping[str, Mapping[str, str]] = {
    "rank": {
        "effective rank over the most there can be": (
            "How many directions attention uses, over the most that it could, of each head; as a"
            " curve, the mean over heads with a band from the lowest to the highest. The mask"
            " alone moves it, and so does the scale of the scores: masks are compared where scores"
            " have one standard deviation. A high rank is not a better model."
        ),
        "log |det|": (
            "The logarithm of the volume that attention keeps. Far below zero, the matrix is"
            " nearly singular. Attention under a causal mask is always of full rank, and can be"
            " nearly singular all the same. Longer texts are lower, so lengths must be equal; and"
            " it does not show that anything is lost, for skips carry it past attention."
        ),
    },
    "collapse": {
        "residual over norm": (
            "How far the states of a text's tokens are from all being equal, after each layer: 0"
            " where they are. Depth 0 is the embedding. Parts are left out of the trained model,"
            " which was not trained without them; so a collapse there shows what skips and"
            " feed-forward prevent, not what a model trained without them would do."
        ),
        "cosine similarity": (
            "The mean cosine between the states of two tokens of a text, after each layer: 1 where"
            " all point one way. A few large coordinates that all tokens share are enough to raise"
            " it, so it can be high where tokens are still told apart."
        ),
    },
    "positions": {
        "distance to the true position": (
            "How far a line that is fitted to the states of half of the texts misses the positions"
            " of tokens in the other half, in tokens: low where positions can be read off. Shuffled"
            " positions are what guessing gives. It shows what can be read, not what the model"
            " uses."
        ),
    },
    "experts": {
        "MaxVio over the whole text": (
            "How far the most chosen expert is above its even share, by layer: 0 where all are"
            " chosen alike. Over a whole text it is lower than over each batch, and it does not"
            " show whether the other experts are of use."
        ),
        "first expert stays": (
            "How often a token has the same first expert as the one before it, beside what the"
            " loads alone would give by chance. More than by chance may come from neighbours that"
            " are alike, not from an expert for a whole passage."
        ),
    },
}


def quantity_caption(probe: str, quantity: str) -> str:
    """What is to be known about a figure of a quantity."""
    known = CAPTIONS.get(probe, {}).get(quantity)
    if known is not None:
        return f"{known} {DEFINITIONS}"
    return (
        f"What the probe “{probe}” found: {quantity}. Means over texts, without an interval; it"
        f" describes these runs and shows no cause. {DEFINITIONS}"
    )
