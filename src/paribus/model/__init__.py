"""The one transformer."""

from paribus.model.build import build as build
from paribus.model.build import build_empty as build_empty
from paribus.model.dropout import DropoutKey as DropoutKey
from paribus.model.experts import ExpertLoad as ExpertLoad
from paribus.model.experts import balance_loss as balance_loss
from paribus.model.experts import updated_selection_bias as updated_selection_bias
from paribus.model.forward import Forward as Forward
from paribus.model.forward import Observer as Observer
from paribus.model.transformer import ModelOutput as ModelOutput
from paribus.model.transformer import Transformer as Transformer
from paribus.model.weights import read_origin as read_origin
from paribus.model.weights import restore as restore
from paribus.model.weights import save as save
