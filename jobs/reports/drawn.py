"""Figures drawn once, as SVG and PNG, for every place that shows them: the page, the folder of figures, the site."""

import io
from dataclasses import dataclass
from typing import Any

from jobs.core.storage import Files
from jobs.reports import figures
from jobs.reports.svg import inline_svg

PNG_DPI = 160
INDEX = "index.json"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One figure: the finding as title, a description for those who cannot see it, inline SVG text, PNG bytes."""

    title: str
    description: str
    svg: str
    png: bytes


def draw(report: dict[str, Any]) -> dict[str, Drawn]:
    """Name -> figure, for all that the report has data for."""
    return {d.name: _drawn(d) for d in figures.drawings(report)}


def _drawn(d: Any) -> Drawn:
    d.figure.draw_without_rendering()  # lays the figure out once; each save would do it again
    d.figure.set_layout_engine("none")
    image = io.BytesIO()
    d.figure.savefig(image, format="png", dpi=PNG_DPI, metadata={"Title": d.title, "Software": None})
    svg = inline_svg(d.figure, name=d.name, title=d.title, description=d.description)
    return Drawn(title=d.title, description=d.description, svg=svg, png=image.getvalue())


def write_figures(files: Files, folder: str, drawn: dict[str, Drawn]) -> None:
    """Write NAME.svg and NAME.png into `folder`, with an index of titles; figures of before are removed."""
    files.delete(folder)
    for name, d in drawn.items():
        files.write_bytes(f"{folder}/{name}.svg", d.svg.encode("utf-8", "replace"))
        files.write_bytes(f"{folder}/{name}.png", d.png)
    files.write_json(
        f"{folder}/{INDEX}", {n: {"title": d.title, "description": d.description} for n, d in drawn.items()}
    )


def read_figures(files: Files, folder: str) -> dict[str, Drawn]:
    """The figures that `write_figures` wrote."""
    return {
        name: Drawn(
            **told,
            svg=files.read_bytes(f"{folder}/{name}.svg").decode("utf-8"),
            png=files.read_bytes(f"{folder}/{name}.png"),
        )
        for name, told in files.read_json(f"{folder}/{INDEX}").items()
    }
