"""How is text made?"""

from paribus.generate.answer_handle import AnswerHandle as AnswerHandle
from paribus.generate.answers import GeneratedAnswer as GeneratedAnswer
from paribus.generate.answers import fill_answers as fill_answers
from paribus.generate.answers import generate_answers as generate_answers
from paribus.generate.engine import Engine as Engine
from paribus.generate.own_samples import draw_own_pairs as draw_own_pairs
from paribus.generate.sampling import can_generate as can_generate
from paribus.generate.sampling import continuation as continuation
from paribus.generate.settings import Sampling as Sampling
from paribus.generate.text_stream import TextDecoder as TextDecoder
from paribus.generate.text_stream import TextStream as TextStream
from paribus.generate.token_request import SaidToken as SaidToken
from paribus.generate.token_request import TokenRequest as TokenRequest
