"""What all figures share: colours and shapes per variant, style, an empty figure."""

from dataclasses import dataclass
from typing import Any

BLUE, ORANGE, GREY, INK, FAINT = "#2563a8", "#c8590a", "#7a7f87", "#1d2127", "#c9ced6"
LOOK = {
    "plain": (BLUE, "o"),
    "popularity": ("#8a6d00", "v"),
    "ctr": ("#7b4fa3", "^"),
    "qri": (ORANGE, "s"),
    "qri_unfiltered": ("#e39a66", "D"),
    "evidence_only": (GREY, "X"),
}
OTHERS = (("#4d7a3a", "P"), ("#a33a6b", "h"), ("#3a8a8a", "<"))
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.color": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure with its file name, the finding as title, and a text for those who cannot see it."""

    name: str
    title: str
    description: str
    figure: Any


def look(variant: str, place: int = 0) -> tuple[str, str]:
    """Colour and marker of a variant."""
    return LOOK.get(variant) or OTHERS[place % len(OTHERS)]


def tint(colour: str, strength: float) -> str:
    """The colour mixed with white, opaque, so that a hatch in the colour itself stays visible on it."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - strength * (255 - p)):02x}" for p in parts)


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(1, columns, sharey=columns > 1, squeeze=False)[0]


def label_of(variant: str) -> str:
    return {"qri": "grounded (qri)", "evidence_only": "evidence only"}.get(variant, variant)
