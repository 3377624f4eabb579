"""With this folder on PYTHONPATH, every Python that is started refuses the network."""

import refuse_network  # noqa: F401 - importing is what refuses
