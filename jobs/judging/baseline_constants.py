"""Every number of the offline baseline judge, with its reason. Set on simulated worlds of seeds 0-9, then frozen.

Claims about the judge are measured on other seeds. It never sees planted truth: only a page and what a card shows.
"""

COSINE_LOW = 0.05
COSINE_HIGH = 0.85
"""Cosines of query and title between which the plain item score rises from 0 to 1: with the packaged model unrelated
titles lie near 0.1, a title that repeats the query lies above 0.75, and plain's grades come out in equal thirds."""

KERNEL_WIDTH = 0.16
"""A historical query of cosine s weighs exp((s - 1) / width): one at 0.8 counts a third of the query itself, one at 0.4
a fortieth, so that many loosely related queries do not outvote a close one. From 0.14 to 0.2 results hardly differ."""

HALF_IMPRESSIONS = 30
"""Impressions at which a row counts half: at 30 the standard error of a rate of 0.3 is 0.08, a sixth of the scale."""

PRIOR_WEIGHT = 0.1
"""Weight of the plain score against the summed weights of an item's rows: one close row with many impressions outweighs
it, one loosely related row does not."""

LOW_RELEVANCE = 0.1
FULL_RELEVANCE = 0.65
"""Debiased relevance (relative to rank 1) that counts as not and as fully relevant: curiosity draws a click in ten
examinations to anything, and few items draw more than six or seven."""

FULL_CTR = 0.25
"""The same for raw click-through, which is relevance times the mean examination of the ranks where it was shown: about
two fifths over the first ten ranks of a good ranker."""

FULL_IMPRESSIONS = 2000
"""Impressions that count as fully relevant for the variant that sees nothing else; the scale is logarithmic."""

GRADE_1_FROM = 0.38
GRADE_2_FROM = 0.56
"""Page scores from which the grade is 1 and 2: near the thirds of the scores' distribution, where three levels lose
least of a continuous truth (methods.md 4, "equal thirds"). The same for every variant."""
