"""A page as text for people: its items, its truth with its interval, its label, and how it was made."""

from typing import Any

Z = 1.959964  # two-sided 95%


def page_text(page: dict[str, Any]) -> str:
    """The page as lines of text; `page` is a line of pages.jsonl."""
    head = [
        f"{page['page_id']}  ({page['set']}, {page['configuration']})",
        f"query: {page['query']}   corpus: {page['corpus']}   locale: {page['locale'] or '-'}",
    ]
    head += [f"context: {page['context']}"] if page["context"] else []
    head += [f"system: {page['system']}, instance {page['instance']}"] if page["system"] else []
    relevance = page["made"].get("relevance_when_composed")
    items = [_item(item, relevance) for item in page["items"]]
    return "\n".join([*head, *items, _truth(page), _label(page), *_made(page["made"])])


def _item(item: dict[str, Any], relevance: list[float] | None) -> str:
    known = f"   relevance when composed {relevance[item['rank'] - 1]:.3f}" if relevance else ""
    kind = f" [{item['type']}]" if item["type"] else ""
    return f"  {item['rank']:>2}. {item['title'] or '(no title)'}{kind}  {item['item_id']}{known}"


def _truth(page: dict[str, Any]) -> str:
    truth, error = page["truth"], page["truth_standard_error"]
    if truth is None:
        return "truth: - (none is measured for this page)"
    interval = f", 95% interval {truth - Z * error:.3f} to {truth + Z * error:.3f}" if error is not None else ""
    return f"truth: {truth:.3f}{interval} (relative to an examined rank 1)"


def _label(page: dict[str, Any]) -> str:
    if page["human_label"] is None:
        return "human label: -"
    return f"human label: {page['human_label']:.3f} ({page['human_label_source']})"


def _made(made: dict[str, Any]) -> list[str]:
    return ["how it was made:"] + [f"  {name.replace('_', ' ')}: {value}" for name, value in made.items()]
