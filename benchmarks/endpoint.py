"""An OpenAI-compatible endpoint on loopback that gives one fixed answer after a delay.

python -m benchmarks.endpoint PORT SECONDS
"""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_CONTENT = json.dumps({"grade": 1, "rationale": "fixed", "cited": []})
_BODY = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": _CONTENT}}],
        "usage": {"prompt_tokens": 700, "completion_tokens": 20, "total_tokens": 720},
    }
).encode()
_REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_BODY) + _BODY


@contextmanager
def fixed_endpoint(delay_s: float) -> Iterator[str]:
    """Serve in a process of its own; yields the base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.endpoint", str(port), str(delay_s)])
    try:
        _await(port)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def _await(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"the endpoint on port {port} did not start")


async def _serve(delay_s: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            size = next((int(x.split(b":")[1]) for x in lines if x.startswith(b"content-length:")), 0)
            await reader.readexactly(size)
            await asyncio.sleep(delay_s)
            writer.write(_REPLY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(port: int, delay_s: float) -> None:
    """Serve for ever."""
    server = await asyncio.start_server(
        lambda reader, writer: _serve(delay_s, reader, writer), "127.0.0.1", port, backlog=512
    )
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
