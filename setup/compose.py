"""Part of `make lint`: the compose file, read as the Compose specification means it, and held to docker/'s promises.

Where a Docker with Compose is at hand, its own `docker compose config` looks at the file too.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

PATH = Path(__file__).resolve().parent.parent / "docker" / "compose.yaml"
TOP = {"name", "services", "networks", "volumes", "secrets", "configs", "include"}
_KEYS = """
annotations attach build blkio_config cap_add cap_drop cgroup cgroup_parent command configs container_name cpu_count
cpu_percent cpu_period cpu_quota cpu_shares cpus cpuset credential_spec depends_on deploy develop device_cgroup_rules
devices dns dns_opt dns_search domainname entrypoint env_file environment expose extends external_links extra_hosts gpus
group_add healthcheck hostname image init ipc isolation labels label_file links logging mac_address mem_limit
mem_reservation mem_swappiness memswap_limit network_mode networks oom_kill_disable oom_score_adj pid pids_limit
platform ports post_start pre_stop privileged profiles pull_policy read_only restart runtime scale secrets
security_opt shm_size stdin_open stop_grace_period stop_signal storage_opt sysctls tmpfs tty ulimits user userns_mode
uts volumes volumes_from working_dir
"""
SERVICE = set(_KEYS.split())
"""Keys of the Compose specification; a misspelled one would be ignored in silence."""

HEALTH = {"test", "interval", "timeout", "retries", "start_period", "start_interval", "disable"}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
SECRET = re.compile(r"PASSWORD|SECRET|KEY|SALT|TOKEN|SQL_ALCHEMY_CONN")
OURS = {"PASSWORDS_FILE", "SALT_ID"}
REQUIRED = re.compile(r"\$\{\w+:\?[^}]+\}")


class _Strict(yaml.SafeLoader):
    """YAML whose mappings name each key once: the second would win in silence."""


def _mapping(loader: _Strict, node: yaml.MappingNode) -> dict:
    names = [key.value for key, _ in node.value if key.value != "<<"]
    doubled = sorted({n for n in names if names.count(n) > 1})
    if doubled:
        raise yaml.constructor.ConstructorError(None, None, f"{', '.join(doubled)} stands twice", node.start_mark)
    loader.flatten_mapping(node)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Strict.add_constructor("tag:yaml.org,2002:map", _mapping)


def complaints(text: str) -> list[str]:
    """What is wrong with the file, one sentence each."""
    try:
        body = _Strict(text).get_single_data()
    except yaml.YAMLError as error:
        return [f"is no YAML: {' '.join(str(error).split())}"]
    if not isinstance(body, dict) or not isinstance(body.get("services"), dict):
        return ["has no services"]
    found = [f"{key}: no key of a compose file" for key in body if key not in TOP and not key.startswith("x-")]
    for name, service in body["services"].items():
        found += [f"{name}: {what}" for what in _of_service(service, body)]
    return found + _unused(body)


def _of_service(service: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
    yield from (f"{key} is no key of a service" for key in service if key not in SERVICE)
    yield from _image(service)
    yield from _health(service)
    yield from _confined(service)
    yield from _environment(service.get("environment") or {})
    yield from _references(service, body)


def _image(service: dict[str, Any]) -> Iterator[str]:
    image = service.get("image", "")
    if not re.search(r"@sha256:[0-9a-f]{64}$|:[^/:]*\d+\.\d+[^/:]*$", image):
        yield f"image {image!r} is pinned neither by digest nor by version"


def _health(service: dict[str, Any]) -> Iterator[str]:
    check = service.get("healthcheck")
    if not isinstance(check, dict) or not (check.get("test") or check.get("disable")):
        yield "has no healthcheck (a test, or disable: true for one that ends by itself)"
    else:
        yield from (f"healthcheck.{key} is no key" for key in check if key not in HEALTH)
        if check.get("disable") and service.get("restart") != "no":
            yield "has no healthcheck although it runs on"


def _confined(service: dict[str, Any]) -> Iterator[str]:
    if service.get("privileged") or service.get("network_mode") == "host" or service.get("cap_add"):
        yield "is privileged, has capabilities or the host's network"
    if service.get("cap_drop") != ["ALL"] or "no-new-privileges:true" not in service.get("security_opt", []):
        yield "keeps capabilities or may gain privileges: cap_drop: [ALL], security_opt: [no-new-privileges:true]"
    if str(service.get("user", "")).split(":")[0] in ("0", "root"):
        yield "runs as root"
    for port in service.get("ports", []):
        if not isinstance(port, str) or not port.startswith("127.0.0.1:"):
            yield f"port {port!r} is not text that starts with 127.0.0.1:"


def _environment(variables: dict[str, Any] | list[str]) -> Iterator[str]:
    if isinstance(variables, list):
        yield "environment is a list: write a mapping, so that no variable stands twice"
        return
    for name, value in variables.items():
        if isinstance(value, bool):
            yield f"{name} is a bare {value}: quote it"
        optional = str(value) == f"${{{name}:-}}"
        secret = SECRET.search(name) and not any(part in name for part in OURS)
        if secret and not optional and not REQUIRED.search(str(value)):
            yield f"{name} is written into the file, or has a default: use ${{{name}:?how to make it}}"


def _references(service: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
    waits = service.get("depends_on") or {}
    for other, how in waits.items() if isinstance(waits, dict) else ((n, {}) for n in waits):
        there = body["services"].get(other)
        if there is None:
            yield f"depends on {other}, which is no service"
        elif how.get("condition") not in CONDITIONS:
            yield f"depends on {other} without a condition"
        elif how["condition"] == "service_healthy" and not (there.get("healthcheck") or {}).get("test"):
            yield f"waits for the health of {other}, which has no test"
    for kind, name in _used(service):
        if name not in (body.get(kind) or {}):
            yield f"{kind} {name} is not declared"


def _used(service: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from (("networks", name) for name in service.get("networks") or ())
    yield from (("secrets", s if isinstance(s, str) else s["source"]) for s in service.get("secrets") or ())
    mounts = (m.split(":")[0] if isinstance(m, str) else m.get("source", "") for m in service.get("volumes") or ())
    yield from (("volumes", m) for m in mounts if not m.startswith((".", "/", "~")))


def _unused(body: dict[str, Any]) -> list[str]:
    used = {pair for service in body["services"].values() for pair in _used(service)}
    return [f"{kind} {name} is used by no service" for kind in ("networks", "volumes", "secrets")
            for name in body.get(kind) or {} if (kind, name) not in used]  # fmt: skip


def main() -> int:
    """1 if anything is wrong, each said on a line."""
    found = complaints(PATH.read_text(encoding="utf-8"))
    docker = shutil.which("docker")
    if docker and not found and subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0:
        command = [docker, "compose", "-f", str(PATH), "config", "--quiet", "--no-interpolate"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found += [done.stderr.strip()] if done.returncode else []
    print("\n".join(f"docker/compose.yaml: {one}" for one in found) or "compose: docker/compose.yaml, nothing to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
