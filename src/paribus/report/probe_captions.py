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
CORRUPTION_CAPTION = (
    "The loss of the same hidden tokens twice: with the masks or spans of training elsewhere in the"
    " text, and with the rest of the text plain. Plain text to the left of corrupted text is a gain"
    " from what corruption hides, to the right is confusion by what training never showed; the two"
    " are not told apart. Runs whose objectives hide other shares answer other questions."
)
# by probe: the quantities that are drawn, and where curves over two things need two captions,
# what they are over
CAPTIONS: Mapping[str, Mapping[str, str]] = {
    "rank": {
        "effective rank over the most there can be": (
            "How many directions attention uses, over the most that it could, of each head. The"
            " mask alone moves it, and so does the scale of the scores. A high rank is not a better"
            " model."
        ),
        "effective rank over the most there can be by layer": (
            "The mean over the heads of each layer, with a band from the lowest to the highest."
            " Masks are compared where scores have one standard deviation, for their scale moves"
            " the rank, too. A wide band may hide heads that differ in kind."
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
        "saturation": (
            "How many of a token's last experts it had at an earlier step, beside what loads alone"
            " would give by chance: 1 where routing no longer changes. Settled routing need not"
            " be good, and one run does not show when others would settle."
        ),
    },
    "flow": {
        "attention distance": (
            "How many tokens back or ahead the attention of each head looks. Where weights lie is"
            " not yet what is passed on."
        ),
        "attention distance by layer": (
            "The mean over the heads of each layer, with a band from the lowest to the highest. The"
            " mask alone moves it, so equal weights under the same mask are dashed. A mean may hide"
            " one head that looks far."
        ),
        "attention entropy": (
            "How widely attention spreads, in nats: 0 where a query looks at one token. Equal"
            " weights under the same mask, dashed, are the most there can be. A sharp head need not"
            " matter to the answer."
        ),
        "weight on the first token": (
            "The share of attention that goes to the first token of a text. Far above equal"
            " weights, dashed, it is a sink. A sink may have values near zero, so it does not show"
            " that the first token is used."
        ),
        "weight on itself": (
            "The share of attention that a token gives to itself, with equal weights dashed. Near 1"
            " a head mixes nothing, but a skip past attention passes the same state on, so a low"
            " share does not show that it is lost."
        ),
        "weight on the most attended token": (
            "The share of attention that the most attended token of a text gets, over all queries,"
            " with equal weights dashed. It does not say which token it is, nor whether its value"
            " is more than nothing."
        ),
        "reached pairs": (
            "The share of pairs of positions of which one can change the other, after each layer."
            " It follows from the masks alone and is the same before training: it shows what could"
            " pass, not what does."
        ),
        "share of the gradient": (
            "How much of the gradient of one state falls on a token, by its distance. It is of"
            " small changes alone, and does not show how far back the loss makes use of a text."
        ),
    },
    "context": {
        "loss by tokens of context": (
            "The loss of the last quarter of each text, as the context before it is cut to its last"
            " tokens. Where the line is flat, tokens further back are not used; it cannot show that"
            " longer texts would not help, for they end here."
        ),
        "loss by tokens in order": (
            "The loss of the last quarter of each text, with all of its context there and only the"
            " last tokens of it in order. A flat line uses the words further back without their"
            " order, or does not use them: the figure of cut context tells which."
        ),
        "loss by position": (
            "The loss of a text beyond its first quarter, by how many tokens stand before; its"
            " neighbours are taken together. It falls where a model makes use of what it has read,"
            " but later parts of texts may also be easier by themselves."
        ),
    },
    "gradients": {
        "gradient norm": (
            "How long the gradient of the training loss is in each layer, before training (dashed)"
            " and at kept checkpoints. Norms of different objectives are norms of different losses,"
            " and do not show which layer learns faster: the optimizer rescales them."
        ),
    },
    "in-context": {
        "nats": (
            "The loss of the answer by the number of examples before the query; of regression,"
            " beside ridge, which no learner beats by much. A line that does not fall does not"
            " learn from examples; one that falls like ridge may still be another learner."
        ),
        "accuracy": (
            "How often the likeliest answer is right, by the number of examples, beside known"
            " learners. Equal accuracy does not show that a model runs the same algorithm."
        ),
        "mass of symbols": (
            "The probability that the answer is one of the symbols at all. Below 1, a model has not"
            " yet learnt what answers look like; at 1, it may still know nothing of the function."
        ),
        "squared error": (
            "The squared error of the answer by the number of examples, beside known learners."
            " Symbols are rounded, so no line reaches 0; a line that stays at that of the mean does"
            " not learn from the examples."
        ),
        "squared difference": (
            "How far a model's answers are from those of each known learner: the lowest line is the"
            " learner that it resembles most. Learners whose answers agree cannot be told apart by"
            " them, so this does not show which algorithm runs inside."
        ),
    },
    "descent": {
        "SimAOU": (
            "The cosine between how a prompt of examples moves the output of attention and how a"
            " step of tuning on them does, by layer. It says something only above the broken"
            " lines, the untrained model and a random update, and even then not that the model"
            " descends a gradient."
        ),
        "SimAM": (
            "The cosine between the scores of attention after a prompt of examples and after a step"
            " of tuning on them, by layer. Scores are alike before any tuning, too: what tuning"
            " does is the difference from that broken line, and it may be nothing."
        ),
        "Kendall's tau": (
            "How alike attention to the tokens of examples and the weights of a step of tuning on"
            " them order these tokens, by layer: 0 is no agreement. The broken lines are random"
            " attention and the untrained model; agreement does not show a common cause."
        ),
    },
}


def known_caption(probe: str, quantity: str, x_name: str) -> str | None:
    """The caption of a quantity, or of its curve over something; None where neither has one."""
    captions = CAPTIONS.get(probe, {})
    return captions.get(f"{quantity} by {x_name}", captions.get(quantity))


def quantity_caption(probe: str, quantity: str, x_name: str = "") -> str:
    """What is to be known about a figure of a quantity."""
    known = known_caption(probe, quantity, x_name)
    if known is not None:
        return f"{known} {DEFINITIONS}"
    return (
        f"What the probe “{probe}” found: {quantity}. Means over texts, without an interval; it"
        f" describes these runs and shows no cause. {DEFINITIONS}"
    )
