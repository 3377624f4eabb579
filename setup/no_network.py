"""Run a command that cannot reach anything but this machine: `python setup/no_network.py COMMAND …`.

In a network namespace that holds loopback only, where the kernel lets us make one (every process, Java included, is
held by it); otherwise by refusing connections in every Python process. Says which was used.
"""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

INSIDE = "LOOPBACK_ONLY"
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def namespace_command() -> list[str]:
    """How to start a command in a namespace of its own, or [] where that is not possible."""
    if not shutil.which("unshare"):
        return []
    for options in (["-n"], ["-r", "-n"]):
        command = ["unshare", *options]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    return []


def raise_loopback() -> None:
    """`ip link set lo up`, without needing `ip`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def main() -> None:
    """Replace this process by the command."""
    command = sys.argv[1:]
    if os.environ.get(INSIDE) == "entering":
        raise_loopback()
        os.environ[INSIDE] = "namespace"
    elif INSIDE not in os.environ:
        prefix = namespace_command()
        if prefix:
            print("network: a namespace with loopback only", flush=True)
            os.environ[INSIDE] = "entering"
            command = [*prefix, sys.executable, __file__, *command]
        else:
            print("network: Python connections to anything but loopback are refused", flush=True)
            os.environ[INSIDE] = "python"
            os.environ["PYTHONPATH"] = os.pathsep.join(
                filter(None, [str(Path(__file__).parent / "refuse"), os.environ.get("PYTHONPATH")])
            )
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
