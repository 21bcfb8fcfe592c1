"""How well are tasks done?"""

from paribus.evaluate.tasks.arms import TaskArm as TaskArm
from paribus.evaluate.tasks.arms import task_arm as task_arm
from paribus.evaluate.tasks.choices import ask_choices as ask_choices
from paribus.evaluate.tasks.floors import choice_floors as choice_floors
from paribus.evaluate.tasks.generation import ask_generation as ask_generation
from paribus.evaluate.tasks.protocols import demonstrations_that_fit as demonstrations_that_fit
from paribus.evaluate.tasks.run import PreparedTask as PreparedTask
from paribus.evaluate.tasks.run import evaluate_task as evaluate_task
from paribus.evaluate.tasks.run import prepare_task as prepare_task
from paribus.evaluate.tasks.subject import TaskSubject as TaskSubject
from paribus.evaluate.tasks.subject import overlap_share as overlap_share
from paribus.evaluate.tasks.target_scores import TargetScores as TargetScores
from paribus.evaluate.tasks.target_scores import target_scores as target_scores
