"""Can others talk to it?

`Speaker` is a checkpoint that can be talked to, `ChatSession` one that a terminal holds with it,
and `paribus.serve.app` makes the server. Only the server needs fastapi and uvicorn.
"""

from paribus.serve.chat_session import ChatSession as ChatSession
from paribus.serve.speaker import Speaker as Speaker
from paribus.serve.speaker import load_speaker as load_speaker
