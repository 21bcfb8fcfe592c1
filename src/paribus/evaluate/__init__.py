"""How good is it?"""

from paribus.evaluate.items import Item as Item
from paribus.evaluate.items import fingerprint as fingerprint
from paribus.evaluate.items import items as items
from paribus.evaluate.likelihood import likelihoods as likelihoods
from paribus.evaluate.parts import answering as answering
from paribus.evaluate.parts import context_is_prefix as context_is_prefix
from paribus.evaluate.run import evaluate as evaluate
from paribus.evaluate.run import evaluate_checkpoint as evaluate_checkpoint
from paribus.evaluate.run import stage_of as stage_of
from paribus.evaluate.scores import Scored as Scored
from paribus.evaluate.scores import scored as scored
from paribus.evaluate.unigram import unigram_nats as unigram_nats
from paribus.record import Answer as Answer
from paribus.record import Evaluation as Evaluation
