"""A corpus with planted rules and a scripted language model: what tests and benchmarks measure discovery with."""

from jobs.skills.planted.corpus import Planted, make_other, make_planted
from jobs.skills.planted.scripted import ScriptedModel

__all__ = ["Planted", "ScriptedModel", "make_other", "make_planted"]
