"""`serve_model.py MODEL.gguf PORT CONTEXT_TOKENS THREADS`: one local model behind OpenAI's protocol, until SIGTERM.

For the container `model` of compose.yaml, whose network is the only one that reaches it; it asks for no key.
"""

import signal
import sys
import threading
from pathlib import Path


def main(path: str, port: int, context_tokens: int, threads: int, *, host: str = "0.0.0.0") -> int:
    """Serve; 1 with a sentence if there is no such file."""
    if not Path(path).is_file():
        print(f"{path}: there is no such file: put a GGUF model there", file=sys.stderr)
        return 1
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = [host]
    params.port = port
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    server = xllamacpp.Server(params)
    print(f"serving {path} at {server.listening_address}", flush=True)
    stopped.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:5])))
