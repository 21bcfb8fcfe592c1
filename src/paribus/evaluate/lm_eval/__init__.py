"""lm-evaluation-harness on any model here. Its modules need the extra `eval`, so nothing else
imports them but the verb and the command line that ask for it.
"""
