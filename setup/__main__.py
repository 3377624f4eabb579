"""`python3 setup`: what `make setup` runs. Says what is missing before anything that an old Python could not read."""

import sys

from preconditions import Missing, check_python

try:
    check_python()
except Missing as missing:
    sys.exit("setup: %s" % missing)

from prepare import main  # noqa: E402 - needs the Python that was just checked

sys.exit(main())
