"""Can others talk to it?

`Speaker` is a checkpoint that can be talked to, `Conversation` one that a terminal holds with it,
and `paribus.serve.app` makes the server. Only the server needs fastapi and uvicorn.
"""

from paribus.serve.conversation import Conversation as Conversation
from paribus.serve.speaker import Speaker as Speaker
from paribus.serve.speaker import load_speaker as load_speaker
