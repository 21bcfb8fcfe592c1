"""Which items does a task have?"""

from paribus.corpus.tasks.items import ChoiceItem as ChoiceItem
from paribus.corpus.tasks.items import GenerationItem as GenerationItem
from paribus.corpus.tasks.items import LabelItem as LabelItem
from paribus.corpus.tasks.items import TagItem as TagItem
from paribus.corpus.tasks.items import choice_items as choice_items
from paribus.corpus.tasks.items import generation_items as generation_items
from paribus.corpus.tasks.items import labelled_items as labelled_items
from paribus.corpus.tasks.items import tagged_items as tagged_items
from paribus.corpus.tasks.pairs import TaskPair as TaskPair
from paribus.corpus.tasks.pairs import marked_tasks as marked_tasks
from paribus.corpus.tasks.pairs import task_pairs as task_pairs
from paribus.corpus.tasks.pairs import trained_task_name as trained_task_name
from paribus.corpus.tasks.pairs import write_task_pairs as write_task_pairs
from paribus.corpus.tasks.splits import task_members as task_members
from paribus.corpus.tasks.splits import task_rows as task_rows
