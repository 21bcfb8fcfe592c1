"""How does the loss fall with parameters and tokens, and do architectures differ in it?

L = E + A/N^α + B/D^β, with N parameters and D tokens read: fits, intervals, comparisons of
exponents, compute multipliers and predictions. docs/scaling.md has the definitions.
"""

from paribus.analyse.laws.bootstrap import bootstrap_intervals as bootstrap_intervals
from paribus.analyse.laws.bootstrap import bootstrap_parameters as bootstrap_parameters
from paribus.analyse.laws.broken import BrokenLaw as BrokenLaw
from paribus.analyse.laws.broken import broken_law as broken_law
from paribus.analyse.laws.equal_loss import ComputePath as ComputePath
from paribus.analyse.laws.equal_loss import EqualLoss as EqualLoss
from paribus.analyse.laws.equal_loss import LawCrossing as LawCrossing
from paribus.analyse.laws.equal_loss import compute_path as compute_path
from paribus.analyse.laws.equal_loss import equal_loss_curve as equal_loss_curve
from paribus.analyse.laws.equal_loss import find_crossing as find_crossing
from paribus.analyse.laws.exponents import ExponentVerdict as ExponentVerdict
from paribus.analyse.laws.exponents import compare_exponents as compare_exponents
from paribus.analyse.laws.fit import LawEstimate as LawEstimate
from paribus.analyse.laws.fit import LawFit as LawFit
from paribus.analyse.laws.fit import ScalingLaw as ScalingLaw
from paribus.analyse.laws.fit import fit_arm as fit_arm
from paribus.analyse.laws.fit import fit_arms as fit_arms
from paribus.analyse.laws.fit import law_intervals as law_intervals
from paribus.analyse.laws.fit import one_floor_p as one_floor_p
from paribus.analyse.laws.huber import HuberFit as HuberFit
from paribus.analyse.laws.huber import huber_law as huber_law
from paribus.analyse.laws.noise import LawNoise as LawNoise
from paribus.analyse.laws.points import LawCells as LawCells
from paribus.analyse.laws.points import LawPoint as LawPoint
from paribus.analyse.laws.points import cells_by_arm as cells_by_arm
from paribus.analyse.laws.points import require_identified as require_identified
from paribus.analyse.laws.points_file import read_points as read_points
from paribus.analyse.laws.prediction import LawPrediction as LawPrediction
from paribus.analyse.laws.prediction import PredictionOutcome as PredictionOutcome
from paribus.analyse.laws.prediction import compare_with_outcome as compare_with_outcome
from paribus.analyse.laws.prediction import predict_loss as predict_loss
