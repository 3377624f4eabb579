"""A real HTTP endpoint on loopback that replies as a script says and records every call."""

import json
import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOOD = {"grade": 1, "rationale": "scripted", "cited": []}


def completion(content, *, finish="stop", **message):
    """A chat completion's body; `content` may be an object, which becomes JSON."""
    text = content if isinstance(content, str | None) else json.dumps(content)
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    return {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}


class Calls(list):
    """Recorded requests: dicts with path, headers and body."""

    @property
    def prompts(self):
        """The user's message of each call, without probes."""
        texts = [call["body"]["messages"][-1]["content"] for call in self]
        return [text for text in texts if "probe" not in text]


@contextmanager
def endpoint(script: Callable | None = None, *, probes: bool = False):
    """Yield (base URL, calls). script(body, nth) -> (status, body[, headers]) for the nth call that is no probe, with
    `probes` for every call."""
    calls, lock = Calls(), threading.Lock()
    seen = {"n": 0}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            """Keep the test's output clean."""

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                calls.append({"path": self.path, "headers": dict(self.headers), "body": body})
                probe = "probe" in body["messages"][-1]["content"]
                nth = seen["n"]
                seen["n"] += not probe
            mine = script is not None and (probes or not probe)
            status, reply, *more = script(body, nth) if mine else (200, completion(GOOD))
            if status == "drop":
                self.close_connection = True
                return
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **(more[0] if more else {})}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", calls
    finally:
        server.shutdown()
        server.server_close()
