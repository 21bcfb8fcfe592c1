"""What is read, in which order?"""

from paribus.corpus.build import build as build
from paribus.corpus.built import Built as Built
from paribus.corpus.built import part as part
from paribus.corpus.languages import answer as answer
from paribus.corpus.show import Holding as Holding
from paribus.corpus.show import Sample as Sample
from paribus.corpus.show import cuts as cuts
from paribus.corpus.show import document as document
from paribus.corpus.show import holdings as holdings
from paribus.corpus.show import remarks as remarks
from paribus.corpus.show import sampled as sampled
from paribus.corpus.splits import Split as Split
from paribus.corpus.tokenizer import Tokenizer as Tokenizer
