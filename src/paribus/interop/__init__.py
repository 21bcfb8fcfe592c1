"""Hugging Face in and out: which of their weights are ours?"""

from paribus.interop.exporting import export as export
from paribus.interop.importing import ImportedModel as ImportedModel
from paribus.interop.importing import import_ as import_
from paribus.interop.loaded_checkpoint import LoadedCheckpoint as LoadedCheckpoint
from paribus.interop.loaded_checkpoint import load_checkpoint as load_checkpoint
from paribus.interop.registry import FAMILIES as FAMILIES
