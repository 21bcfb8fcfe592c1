"""Hugging Face in and out: which of their weights are ours?"""

from paribus.interop.families import FAMILIES as FAMILIES
from paribus.interop.loaded import Loaded as Loaded
from paribus.interop.loaded import load_checkpoint as load_checkpoint
from paribus.interop.reading import Imported as Imported
from paribus.interop.reading import import_ as import_
from paribus.interop.writing import export as export
