"""What docker/ promises: loopback only, no default passwords, nobody is root, versions pinned, health checked."""

import json
import re
import stat
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docker"))

import make_secrets  # noqa: E402 - a script for operators, no package

COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
SECRET = re.compile(r"PASSWORD|SECRET|KEY|SALT")


def test_the_services_are_those_of_the_design() -> None:
    assert set(SERVICES) == {"postgres", "airflow-init", "api-server", "scheduler", "dag-processor", "triggerer",
                             "spark-master", "spark-worker-1", "spark-worker-2", "model"}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_on_loopback_only(name: str) -> None:
    assert [p for p in SERVICES[name].get("ports", []) if not p.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_health_is_checked(name: str) -> None:
    assert "healthcheck" in SERVICES[name]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_images_are_pinned(name: str) -> None:
    assert re.search(r":\d+\.\d+", SERVICES[name]["image"])


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_secrets_have_no_defaults(name: str) -> None:
    variables = SERVICES[name].get("environment", {})
    own = {k: str(v) for k, v in variables.items() if SECRET.search(k) and "PASSWORDS_FILE" not in k}
    own.pop("HINDCAST_API_KEY", None)  # empty where the judge needs none
    assert [k for k, v in own.items() if not re.fullmatch(r"\$\{\w+:\?.+\}", v)] == []


def test_every_variable_is_written_by_make_secrets() -> None:
    used = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker" / "compose.yaml").read_text()))
    assert used <= set(make_secrets.values())


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda p: p.name)
def test_dockerfiles_take_a_base_and_leave_root(path: Path) -> None:
    text = path.read_text()
    base = re.search(r"^ARG BASE=(\S+)\nFROM \$\{BASE\}$", text, re.MULTILINE)
    assert base, "the base is an argument"
    assert re.search(r":\d+\.\d+", base[1]), "and pinned"
    users = re.findall(r"^USER (\S+)", text, re.MULTILINE)
    assert users == ["10001"] or "hindcast-jobs" in base[1], "the jobs image, or one that starts from it, is not root's"
    assert "HEALTHCHECK" in text


def test_secrets_are_random_private_and_never_overwritten(tmp_path: Path) -> None:
    password = make_secrets.create(tmp_path)
    first = (tmp_path / ".env").read_text()
    assert json.loads((tmp_path / "secrets" / "passwords.json").read_text()) == {"operator": password}
    for path in (tmp_path / ".env", tmp_path / "secrets" / "passwords.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match="--rotate NAME"):
        make_secrets.create(tmp_path)
    assert (tmp_path / ".env").read_text() == first
    assert make_secrets.values()["POSTGRES_PASSWORD"] not in first


def test_a_rotated_value_changes_alone_and_a_salt_with_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_secrets.create(tmp_path)
    before = (tmp_path / ".env").read_text().splitlines()
    make_secrets.rotate(tmp_path, "POSTGRES_PASSWORD")
    after = (tmp_path / ".env").read_text().splitlines()
    changed = [b.split("=")[0] for b, a in zip(before, after, strict=True) if a != b]
    assert changed == ["POSTGRES_PASSWORD"]
    later = dict.fromkeys(make_secrets.FOLLOWS, "x") | {"HINDCAST_USER_SALT_ID": "later"}
    monkeypatch.setattr(make_secrets, "values", lambda: later)
    make_secrets.rotate(tmp_path, "HINDCAST_USER_SALT")
    assert "HINDCAST_USER_SALT_ID=later" in (tmp_path / ".env").read_text()
    with pytest.raises(KeyError):
        make_secrets.rotate(tmp_path, "PATH")


def test_secrets_are_never_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"docker/.env", "docker/airflow.env", "docker/spark.env", "docker/secrets/"} <= set(ignored)
    allowed = {line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {line for line in allowed if "docker" in line} == {"!docker/serve_model.py"}, "nor copied into an image"


def test_the_local_model_is_asked_for_by_name() -> None:
    assert [name for name, service in SERVICES.items() if "profiles" in service] == ["model"]
    assert "ports" not in SERVICES["model"], "it asks for no key, so only the network of the services reaches it"


def test_what_images_copy_is_what_the_build_is_given() -> None:
    given = {line[1:].split("/")[0] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    for path in DOCKERFILES:
        for line in re.findall(r"^COPY (?:--\S+ )*(.+)$", path.read_text(), re.MULTILINE):
            for source in line.split()[:-1]:
                assert source.strip("/").split("/")[0].replace("[s]", "s") in given, f"{path.name}: {source}"


def test_a_missing_model_is_told_in_one_sentence(capsys: pytest.CaptureFixture) -> None:
    import serve_model

    assert serve_model.main("/no/such.gguf", 0, 0, 0) == 1
    assert capsys.readouterr().err == "/no/such.gguf: there is no such file: put a GGUF model there\n"
