"""Files of a store, on a local folder or an object store (s3://, s3a://), through pyarrow's file systems.

JSON documents are replaced atomically: a reader sees the old or the new text, never half of one. Credentials come from
the environment (AWS_…), never from settings.
"""

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from jobs.core.errors import ConflictError, NotThereError, UsageError
from jobs.core.tickets import held


def is_object_store(uri: str) -> bool:
    """True for s3:// and s3a:// URIs."""
    return uri.startswith(("s3://", "s3a://"))


def filesystem(uri: str):
    """(pyarrow file system, path within it) of a local path or an object-store URI."""
    from pyarrow import fs

    if not is_object_store(uri):
        if "://" in uri and not uri.startswith("file://"):
            raise UsageError(f"{uri}: only local paths, s3:// and s3a:// are supported as a store")
        return fs.LocalFileSystem(), str(Path(uri.removeprefix("file://")).absolute())
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    scheme = "http" if endpoint.startswith("http://") else "https"
    options = {"endpoint_override": endpoint.split("://")[-1], "scheme": scheme} if endpoint else {}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return fs.S3FileSystem(region=region, **options), uri.split("://", 1)[1]


def storage_options(uri: str) -> dict[str, str]:
    """Options for delta-rs and Polars beyond the AWS_ variables that they read themselves; empty for local paths."""
    if not is_object_store(uri):
        return {}
    names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION")
    options = {n: os.environ[n] for n in names if os.environ.get(n)}
    options.setdefault("AWS_REGION", os.environ.get("AWS_DEFAULT_REGION", "us-east-1"))
    if options.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    return options


def rust_uri(uri: str) -> str:
    """The URI as delta-rs and Polars spell it (s3a:// becomes s3://)."""
    return "s3://" + uri.removeprefix("s3a://") if uri.startswith("s3a://") else uri


def spark_uri(uri: str) -> str:
    """The URI as Spark's Hadoop client spells it (s3:// becomes s3a://)."""
    return "s3a://" + uri.removeprefix("s3://") if uri.startswith("s3://") else uri


class Files:
    """Documents and folders under one root; paths are relative and may not leave it."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._fs, self._base = filesystem(self.root)

    def uri(self, path: str) -> str:
        """Absolute path or URI of a relative path; UsageError if it would leave the root."""
        parts = path.split("/")
        if path.startswith("/") or ".." in parts or "\x00" in path:
            raise UsageError(f"path {path!r} leaves the store: use a path below it")
        return f"{self.root}/{path}"

    def _inner(self, path: str) -> str:
        self.uri(path)
        return f"{self._base}/{path}"

    def exists(self, path: str) -> bool:
        """True if a file or folder stands there."""
        from pyarrow import fs

        return self._fs.get_file_info(self._inner(path)).type != fs.FileType.NotFound

    def size(self, path: str) -> int:
        """Bytes of a file; 0 if there is none."""
        return self._fs.get_file_info(self._inner(path)).size or 0

    def read_bytes(self, path: str) -> bytes:
        """The file's content; NotThereError if there is none."""
        try:
            with self._fs.open_input_stream(self._inner(path), compression=None) as stream:
                return stream.read()
        except FileNotFoundError:
            raise NotThereError(f"{self.uri(path)} does not exist: run the step that writes it first") from None

    def write_bytes(self, path: str, content: bytes) -> None:
        """Replace the file atomically: on disk by rename, on object stores a put is atomic by itself."""
        target = self._inner(path)
        if is_object_store(self.root):
            with self._fs.open_output_stream(target, compression=None) as stream:
                stream.write(content)
            return
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        draft = Path(f"{target}.{uuid.uuid4().hex}.draft")
        try:
            with draft.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    def read_json(self, path: str) -> Any:
        """The JSON document; NotThereError if there is none."""
        return json.loads(self.read_bytes(path))

    def write_json(self, path: str, value: Any) -> None:
        """Replace the JSON document atomically; NaN and infinities are refused (ValueError)."""
        text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False, default=str)
        self.write_bytes(path, text.encode("utf-8", "surrogatepass"))

    def list(self, folder: str) -> list[str]:
        """Names of files and folders directly in `folder`, sorted; empty if it does not exist."""
        from pyarrow import fs

        selector = fs.FileSelector(self._inner(folder), allow_not_found=True)
        return sorted(
            info.base_name for info in self._fs.get_file_info(selector) if not info.base_name.endswith(".draft")
        )

    def delete(self, path: str) -> None:
        """Remove a file or a folder with all in it; nothing happens if it does not exist. Never the root itself."""
        from pyarrow import fs

        if not set(path.split("/")) - {"", "."}:
            raise UsageError(f"path {path!r} is the whole store: name what is to go below it")
        kind = self._fs.get_file_info(self._inner(path)).type
        if kind == fs.FileType.Directory:
            self._fs.delete_dir(self._inner(path))
        elif kind == fs.FileType.File:
            self._fs.delete_file(self._inner(path))

    def written(self, folder: str) -> dict[str, datetime]:
        """Names of files directly in `folder`, with the time at which each was written; empty if it does not exist."""
        from pyarrow import fs

        found = self._fs.get_file_info(fs.FileSelector(self._inner(folder), allow_not_found=True))
        files = (f for f in found if f.type == fs.FileType.File and not f.base_name.endswith(".draft"))
        return {f.base_name: f.mtime for f in files}

    @contextmanager
    def lock(self, name: str, *, timeout_s: float = 60.0, brief: bool = False) -> Iterator[None]:
        """Hold an exclusive lock of that name; ConflictError after `timeout_s`.

        On disk an OS file lock, which a killed process releases by itself. Object stores have none: there `brief` locks
        (for what takes a second, such as an entry of a document) are held by tickets, and the others are no-ops, since
        one scheduler is what keeps an ingestion from another.
        """
        if is_object_store(self.root):
            with held(self, name, timeout_s=timeout_s) if brief else nullcontext():
                yield
            return
        import fcntl

        path = Path(self._inner(f"locks/{name}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as handle:
            _wait_for(handle, fcntl, name, timeout_s)
            yield


def _wait_for(handle, fcntl, name: str, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise ConflictError(
                    f"lock {name} was held for {timeout_s:.0f} s: end the other command first"
                ) from None
            time.sleep(0.05)
        else:
            return
