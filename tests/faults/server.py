"""An OpenAI-compatible endpoint that misbehaves on purpose, seeded, and keeps a ledger of what it answered.

    python -m tests.faults.server PORT SEED LEDGER.jsonl [SHARE_OF_FAULTS]

Whether and how a call fails depends on the seed, the page and how often the page was asked, nothing else. Every page
has one label that the server means; the ledger holds a line per call that generated a reply, as a provider bills it.
"""

import asyncio
import hashlib
import json
import re
import sys
from collections import Counter

REFUSED = ("429 after", "429", "429 date", "500", "503", "dropped before")
LOST = ("dropped after", "slow body")
ODD = ("malformed", "fenced", "cut off", "wrong label", "refusal", "empty choices", "free text")
FAULTS = (*REFUSED, *LOST, *ODD)
REASONS = {"malformed": "malformed", "wrong label": "out_of_range", "refusal": "refusal", "empty choices": "empty",
           "free text": "malformed"}  # fmt: skip
PAGE = re.compile(r"page-\d{5}")
SLOW_S = 30.0  # beyond any client's patience in the tests


def unit(*parts: object) -> float:
    """A number in [0, 1) from the parts."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def meant(page: str, *, seed: int) -> int:
    """The grade that the server means for a page."""
    return int(unit("grade", seed, page) * 3)


def fault(page: str, nth: int, *, seed: int, share: float) -> str:
    """What happens on the nth call for a page; "" is a good answer."""
    if unit("fault", seed, page, nth) >= share:
        return ""
    kind = FAULTS[int(unit("kind", seed, page, nth) * len(FAULTS))]
    return kind if kind != "cut off" or nth == 0 else ""


def reply(content: str | None, *, finish: str = "stop", refusal: str | None = None) -> dict:
    """A chat completion's body."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    usage = {"prompt_tokens": 700, "completion_tokens": 20, "total_tokens": 720}
    choices = [{"index": 0, "finish_reason": finish, "message": message}]
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "fault", "choices": choices, "usage": usage}


def body_of(kind: str, grade: int) -> dict:
    """The reply of a call that is answered in full."""
    good = json.dumps({"grade": grade, "rationale": f"kind {kind or 'good'}", "cited": []})
    match kind:
        case "malformed":
            return reply(good[:-1] + ", oops")
        case "fenced":
            return reply(f"```json\n{good}\n```")
        case "cut off":
            return reply(good[:12], finish="length")
        case "wrong label":
            return reply('{"grade": 7, "rationale": "", "cited": []}')
        case "refusal":
            return reply(None, refusal="I cannot judge this.")
        case "empty choices":
            return reply(good) | {"choices": []}
        case "free text":
            return reply("I would rate this 10/10")
    return reply(good)


class FaultServer:
    """Serves until it is stopped; `ledger` is the open file of generated replies."""

    def __init__(self, *, seed: int, ledger, share: float):
        self.seed, self.ledger, self.share = seed, ledger, share
        self.asked: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, as many requests as come."""
        try:
            while True:
                request = await self._read(reader)
                if not await self._answer(request, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> dict:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        size = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
        return json.loads(await reader.readexactly(size))

    async def _answer(self, request: dict, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False where the connection is to be closed."""
        text = request["messages"][-1]["content"]
        found = PAGE.search(text)
        if found is None:  # a probe
            await send(writer, 200, reply('{"grade": 1, "rationale": "probe", "cited": []}'))
            return True
        page = found.group()
        nth, self.asked[page] = self.asked[page], self.asked[page] + 1
        kind = fault(page, nth, seed=self.seed, share=self.share)
        await asyncio.sleep(0.01 + 0.03 * unit("time", page, nth))
        if kind in REFUSED:
            return await refuse(writer, kind)
        grade = meant(page, seed=self.seed)
        self._book(page, kind, grade)
        if kind == "dropped after":
            return False
        if kind == "slow body":
            await drip(writer, body_of("", grade))
            return False
        await send(writer, 200, body_of(kind, grade))
        return True

    def _book(self, page: str, kind: str, grade: int) -> None:
        reason = "cut_off" if kind == "cut off" else REASONS.get(kind)
        line = {"page": page, "kind": kind, "label": None if reason else grade / 2, "reason": reason}
        self.ledger.write(json.dumps(line) + "\n")
        self.ledger.flush()


async def refuse(writer: asyncio.StreamWriter, kind: str) -> bool:
    """Fail without generating anything."""
    if kind == "dropped before":
        return False
    status = int(kind[:3])
    headers = {"429 after": {"retry-after": "0.2"}, "429 date": {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}}
    await send(writer, status, {"error": {"message": "busy", "code": str(status)}}, **headers.get(kind, {}))
    return True


async def send(writer: asyncio.StreamWriter, status: int, body: dict, **headers: str) -> None:
    """Write a whole HTTP response."""
    writer.write(head(status, body, **headers) + json.dumps(body).encode())
    await writer.drain()


async def drip(writer: asyncio.StreamWriter, body: dict) -> None:
    """Send a body so slowly that nobody waits for its end."""
    writer.write(head(200, body))
    for byte in json.dumps(body).encode():
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(SLOW_S / 100)


def head(status: int, body: dict, **headers: str) -> bytes:
    """Status line and headers."""
    size = len(json.dumps(body).encode())
    extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    lines = f"HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n{extra}\r\n"
    return lines.encode()


async def main(port: int, seed: int, ledger: str, share: float) -> None:
    """Serve on loopback for ever."""
    with open(ledger, "a") as file:
        faulty = FaultServer(seed=seed, ledger=file, share=share)
        server = await asyncio.start_server(faulty.serve, "127.0.0.1", port, backlog=512)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4]) if sys.argv[4:] else 0.2))
