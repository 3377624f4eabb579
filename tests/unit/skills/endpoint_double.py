"""A scripted model behind the OpenAI protocol on loopback: what `--base-url` meets in tests."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jobs.skills.llm import Request
from jobs.skills.planted import ScriptedModel
from jobs.skills.prompts import PLACES, load_prompt

PURPOSES = {load_prompt(name).system: name for name in PLACES}


class Handler(BaseHTTPRequestHandler):
    """Answers chat completions by what the system prompt asks for; anything else (a probe) with an empty object."""

    protocol_version = "HTTP/1.1"  # keeps connections, as endpoints do

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        system, user = (one["content"] for one in body["messages"])
        self.server.calls += 1
        purpose = PURPOSES.get(system)
        text = "{}"
        if purpose:
            asked = Request(purpose=purpose, system=system, user=user, schema={})
            text = ScriptedModel().complete([asked])[0].text
        message = {"role": "assistant", "content": text}
        reply = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
        }
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def serving():
    """(base URL, server whose `calls` counts requests)."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.calls = 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
