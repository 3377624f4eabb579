"""Figures as SVG that may stand inside a page with a strict content-security policy: no styles, no shared ids."""

import io
import re
from xml.etree import ElementTree

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_KEPT = re.compile(r"(fill|stroke|opacity|font|text|stop|clip|marker|vector)[a-z-]*")
_FAMILY = "system-ui, sans-serif"
_FONT = re.compile(r"(?P<size>[\d.]+)px (?P<family>.+)")


def inline_svg(figure, *, name: str, title: str, description: str) -> str:
    """The figure as an <svg> element with a title for screen readers; safe to place into HTML as it is."""
    import matplotlib

    raw = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(raw, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return clean_svg(raw.getvalue().decode("utf-8"), name=name, title=title, description=description)


def clean_svg(text: str, *, name: str, title: str, description: str) -> str:
    """Drop metadata and style sheets, turn style attributes into presentation attributes, prefix ids with `name`."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        _presented(element)
        _named(element, name)
    root.attrib.update({"role": "img", "stroke-linejoin": "round", "stroke-linecap": "butt", "class": "plot"})
    width = float(root.attrib["viewBox"].split()[2])
    root.attrib["width"] = f"{width * 96 / 72:.0f}"  # points of the figure to CSS pixels; the style sheet caps it
    for gone in ("height", "version"):
        root.attrib.pop(gone, None)
    for tag, content in (("desc", description), ("title", title)):
        element = ElementTree.Element(f"{{{_SVG}}}{tag}")
        element.text = content
        root.insert(0, element)
    return ElementTree.tostring(root, encoding="unicode")


def _presented(element: ElementTree.Element) -> None:
    for part in element.attrib.pop("style", "").split(";"):
        key, _, value = (x.strip() for x in part.partition(":"))
        if key == "font":
            found = _FONT.search(value)
            if found:
                element.set("font-size", found["size"])
                element.set("font-family", _FAMILY)
        elif key and _KEPT.fullmatch(key):
            element.set(key, value)
    if "font-family" in element.attrib:
        element.set("font-family", _FAMILY)


def _named(element: ElementTree.Element, name: str) -> None:
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    for key, value in list(element.attrib.items()):
        if key in (f"{{{_XLINK}}}href", "href") and value.startswith("#"):
            element.set(key, f"#{name}-{value[1:]}")
        elif "url(#" in value:
            element.set(key, value.replace("url(#", f"url(#{name}-"))
