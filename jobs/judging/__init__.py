"""Judging: every page of a run gets a label or a reason, from a judge that saw it with and without evidence."""
