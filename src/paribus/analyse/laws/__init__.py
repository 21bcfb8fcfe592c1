"""How does the loss fall with parameters and tokens, and do architectures differ in it?

L = E + A/N^α + B/D^β, with N parameters and D tokens read: fits, intervals, comparisons of
exponents, compute multipliers and predictions. docs/scaling.md has the definitions.
"""
