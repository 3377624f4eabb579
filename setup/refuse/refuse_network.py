"""Refuse connections of this Python to anything but this machine: importing is what does it.

An audit hook cannot be taken off again, and sees every connection whatever library makes it.
"""


import ipaddress
import sys

LOCAL_NAMES = {"localhost", "", "0.0.0.0", "::"}


class NetworkRefused(OSError):
    """Something tried to leave this machine."""


def is_local(host: object) -> bool:
    """True for loopback addresses, names of this machine and unix sockets' missing host."""
    if host is None:
        return True
    text = host.decode() if isinstance(host, bytes) else str(host)
    if text in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(text.split("%")[0]).is_loopback
    except ValueError:
        return False


def _hook(event: str, arguments: tuple) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple) and not is_local(arguments[1][0]):
        raise NetworkRefused(f"refused to connect to {arguments[1][0]!r}: only loopback is allowed here")
    if event == "socket.getaddrinfo" and not (is_local(arguments[0]) or _own_name(arguments[0])):
        raise NetworkRefused(f"refused to look up {arguments[0]!r}: only loopback is allowed here")


def _own_name(host: object) -> bool:
    import socket

    return str(host) in {socket.gethostname(), socket.gethostname().split(".")[0]}


sys.addaudithook(_hook)
