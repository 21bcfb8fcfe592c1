"""How good is it?"""

from paribus.evaluate.items import Item as Item
from paribus.evaluate.items import items_fingerprint as items_fingerprint
from paribus.evaluate.items import select_items as select_items
from paribus.evaluate.likelihood import likelihoods as likelihoods
from paribus.evaluate.run import evaluate as evaluate
from paribus.evaluate.run import evaluate_checkpoint as evaluate_checkpoint
from paribus.evaluate.run import last_stage_of as last_stage_of
from paribus.evaluate.totals import AnswerTotals as AnswerTotals
from paribus.evaluate.totals import answer_totals as answer_totals
from paribus.evaluate.unigram import unigram_nats as unigram_nats
from paribus.objectives.answering import answering_component as answering_component
from paribus.record import Answer as Answer
from paribus.record import Evaluation as Evaluation
