"""`python3 setup`: what `make setup` runs. Says what is missing before anything that an old Python could not read."""

import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "jobs", "doctor"))

from machine import Missing, check_python

try:
    check_python()
except Missing as missing:
    sys.exit(f"setup: {missing}")

from prepare import main

sys.exit(main())
