"""How well are tasks done?"""

from paribus.evaluate.tasks.arms import TaskArm as TaskArm
from paribus.evaluate.tasks.arms import task_arm as task_arm
from paribus.evaluate.tasks.choices import ask_choices as ask_choices
from paribus.evaluate.tasks.floors import choice_floors as choice_floors
from paribus.evaluate.tasks.protocols import demonstrations_that_fit as demonstrations_that_fit
from paribus.evaluate.tasks.target_scores import TargetScores as TargetScores
from paribus.evaluate.tasks.target_scores import target_scores as target_scores
