"""Published figures of "As It Was" (arXiv 2607.01040), printed beside ours and always marked as the paper's."""

SOURCE = "arXiv 2607.01040"

PAPER = {
    "source": SOURCE,
    "logs": {
        "n_pages": 5965,
        "all": {"spearman": {"plain": 0.416, "qri": 0.438}, "kendall_b": {"plain": 0.336, "qri": 0.354}},
        "flipped": {"spearman": {"plain": 0.147, "qri": 0.281}, "kendall_b": {"plain": 0.114, "qri": 0.221}},
    },
    "human": {
        "n_pages": 265,
        "all": {"spearman": {"plain": 0.450, "qri": 0.516}, "kendall_b": {"plain": 0.413, "qri": 0.476}},
        "flipped": {"spearman": {"plain": None, "qri": 0.530}, "kendall_b": {"plain": None, "qri": 0.486}},
    },
    "launch": {"n_queries": 904, "aligned": {"plain": 0.306, "qri": 0.368}, "right_sign": 5, "significant": 9},
}
"""Plain to grounded, as published; plain on flipped human pages is only said to be negative. The paper does
not say which tau it reports; it stands beside tau-b."""
