"""The one transformer."""

from paribus.model.build import build as build
from paribus.model.build import empty as empty
from paribus.model.dropout import Draws as Draws
from paribus.model.experts import Load as Load
from paribus.model.experts import balance_loss as balance_loss
from paribus.model.experts import moved_bias as moved_bias
from paribus.model.transformer import Output as Output
from paribus.model.transformer import Transformer as Transformer
from paribus.model.weights import origin as origin
from paribus.model.weights import restore as restore
from paribus.model.weights import save as save
