"""Part of `make lint`: sizes of functions and files, silent tests, stubs, swallowed exceptions, notes left behind."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES, FILE_LINES = 60, 400
"""Hard limits outside of tests; most functions have at most ten lines."""

ASSERTS = re.compile(r"\bassert|raises|\.fail\(|check\(")
NOTES = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")  # in pieces, or this line would find itself


def complaints(path: str, text: str) -> Iterator[str]:
    """One text per place that breaks a rule, as 'path:line: what'."""
    test = path.startswith("tests/")
    lines = text.splitlines()
    if len(lines) > FILE_LINES and not test:
        yield f"{path}:1: {len(lines)} lines, more than {FILE_LINES}: two things in one file?"
    yield from (f"{path}:{n}: a note to oneself" for n, line in enumerate(lines, 1) if NOTES.search(line))
    for node in ast.walk(ast.parse(text)):
        yield from (f"{path}:{node.lineno}: {what}" for what in _of_node(node, text, test=test))


def _of_node(node: ast.AST, text: str, *, test: bool) -> Iterator[str]:
    if isinstance(node, ast.ExceptHandler) and len(node.body) == 1 and isinstance(node.body[0], ast.Pass):
        yield "an exception is swallowed"
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    size = node.end_lineno - node.lineno + 1
    if size > FUNCTION_LINES and not test:
        yield f"{node.name} has {size} lines, more than {FUNCTION_LINES}"
    if test and node.name.startswith("test_") and not ASSERTS.search(ast.get_source_segment(text, node) or ""):
        yield f"{node.name} asserts nothing"
    body = [part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    if len(body) == 1 and isinstance(body[0], ast.Pass):
        yield f"{node.name} does nothing"


def main() -> int:
    """Look at every committed or new Python file; 1 if one of them breaks a rule."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    paths = [name for name in sorted(set(names)) if name and (ROOT / name).is_file()]
    found = [one for name in paths for one in complaints(name, (ROOT / name).read_text(encoding="utf-8"))]
    print("\n".join(found) or f"structure: {len(paths)} files, nothing to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
