"""Child process of the `local` judge: serves one GGUF file on loopback until its stdin is closed.

    python -m jobs.judging.local_server MODEL.gguf CONTEXT_TOKENS THREADS

Prints the address as its only line on stdout. Ending with stdin means that it never outlives its parent, not even one
that was killed.
"""

import os
import sys


def main(path: str, context_tokens: int, threads: int) -> None:
    """Serve until stdin ends; llama.cpp's own log goes to stderr."""
    import xllamacpp

    address = sys.stdout.fileno()
    kept = os.dup(address)
    os.dup2(sys.stderr.fileno(), address)  # the library prints on stdout, where the parent waits for the address
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    server = xllamacpp.Server(params)
    os.write(kept, f"{server.listening_address}\n".encode())
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
