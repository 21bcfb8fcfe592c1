"""`python -m paribus`: the command line, also as torchrun starts it."""

import sys

from paribus.cli import main

sys.exit(main())
