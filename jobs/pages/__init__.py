"""Pages to judge: the Logs set, human labels, A/B pages and any others, each with its truth and how it was made."""
