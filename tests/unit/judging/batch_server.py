"""The Batch API on loopback, as far as judging uses it, with a ledger of what was bought and ways to misbehave."""

import json
import random
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.unit.judging.scripted import GOOD, completion


class BatchServer:
    """State of the provider. `lose_reply_to` drops the connection after doing what was asked; other switches shape
    the results of batches that are finished by `finish`."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict] = {}
        self.bought: list[str] = []  # custom ids, once per purchase
        self.lose_reply_to: set[str] = set()
        self.absent: set[int] = set()  # places whose result never comes
        self.auto_finish = True
        self.status = "completed"
        self.line = lambda name, body: {"custom_id": name, "response": {"status_code": 200, "body": completion(GOOD)}}

    def upload(self, raw: bytes) -> dict:
        head, _, rest = raw.partition(b"\r\n")
        part = next(p for p in rest.split(head) if b'name="file"' in p)
        content = part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": 1,
            "filename": "f",
            "purpose": "batch",
        }

    def create(self, body: dict) -> dict:
        requests = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        name = f"batch-{len(self.batches)}"
        self.bought += [request["custom_id"] for request in requests]
        self.batches[name] = {
            "id": name, "object": "batch", "endpoint": body["endpoint"], "completion_window": "24h", "created_at": 1,
            "input_file_id": body["input_file_id"], "status": "in_progress", "metadata": body["metadata"],
        }  # fmt: skip
        return self.batches[name]

    def retrieve(self, name: str) -> dict:
        batch = self.batches[name]
        if self.auto_finish and batch["status"] == "in_progress":
            self.finish(name)
        return batch

    def finish(self, name: str) -> None:
        batch = self.batches[name]
        batch["status"] = self.status
        if self.status == "failed":
            batch["errors"] = {"object": "list", "data": [{"code": "bad", "message": "line 1 is wrong"}]}
            return
        requests = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        lines = [self.line(r["custom_id"], r["body"]) for n, r in enumerate(requests) if n not in self.absent]
        random.Random(7).shuffle(lines)
        good = [line for line in lines if line.get("response")]
        for kind, chosen in (("output", good), ("error", [line for line in lines if line not in good])):
            if chosen:
                batch[f"{kind}_file_id"] = f"{name}-{kind}"
                self.files[f"{name}-{kind}"] = b"\n".join(json.dumps(line).encode() for line in chosen)


@contextmanager
def batch_endpoint():
    """Yield (base URL, server state)."""
    state, lock = BatchServer(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            """Keep the test's output clean."""

        def do_POST(self):
            raw = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                match self.path:
                    case "/v1/files":
                        self.reply("files", state.upload(raw))
                    case "/v1/batches":
                        self.reply("batches", state.create(json.loads(raw)))
                    case _:
                        self.reply("chat", completion(GOOD))

        def do_GET(self):
            with lock:
                parts = self.path.split("?")[0].split("/")[2:]
                if parts[0] == "files":
                    self.reply("content", state.files[parts[1]])
                elif len(parts) == 2:
                    self.reply("retrieve", state.retrieve(parts[1]))
                else:
                    listed = list(reversed(state.batches.values()))
                    self.reply("list", {"object": "list", "data": listed, "has_more": False})

        def reply(self, what, body):
            if what in state.lose_reply_to:
                self.close_connection = True
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", state
    finally:
        server.shutdown()
        server.server_close()
