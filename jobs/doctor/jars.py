"""The Delta jars that belong to these versions, and how a folder of jars differs from them. Standard library only."""

import hashlib
from pathlib import Path

LISTING = Path(__file__).with_name("jars.sha256")


def expected(listing: Path | None = None) -> dict[str, str]:
    """sha256 by jar name, as committed; of the Delta jars unless another listing is named."""
    lines = (listing or LISTING).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def differences(folder: Path, listing: Path | None = None) -> list[str]:
    """What is wrong with the jars in `folder`, one text a jar; empty when each is there with its hash."""
    return [text for name, digest in expected(listing).items() if (text := _difference(folder / name, digest))]


def _difference(jar: Path, digest: str) -> str:
    if not jar.is_file():
        return f"{jar.name} is missing"
    with jar.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    return "" if found == digest else f"{jar.name} has sha256 {found}, not {digest}"
