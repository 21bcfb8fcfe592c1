"""What is predicted, and how is it scored?"""

from paribus.objectives.permission import keeps_documents as keeps_documents
from paribus.objectives.permission import permit as permit
from paribus.objectives.permission import require_unseen as require_unseen
from paribus.objectives.posing import chosen as chosen
from paribus.objectives.posing import pose as pose
from paribus.objectives.problem import Problem as Problem
from paribus.objectives.problem import Score as Score
from paribus.objectives.problem import nats as nats
from paribus.objectives.problem import score as score
