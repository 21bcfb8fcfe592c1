"""What is predicted, and how is it scored?"""

from paribus.objectives.permission import reads_on as reads_on
from paribus.objectives.permission import require_no_leak as require_no_leak
from paribus.objectives.permission import require_permitted as require_permitted
from paribus.objectives.permission import separates_documents as separates_documents
from paribus.objectives.posing import draw_component as draw_component
from paribus.objectives.posing import pose_problem as pose_problem
from paribus.objectives.posing import possible_draws as possible_draws
from paribus.objectives.problem import Problem as Problem
from paribus.objectives.problem import Score as Score
from paribus.objectives.problem import score as score
from paribus.objectives.problem import target_nats as target_nats
