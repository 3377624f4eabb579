"""The lint of the compose file finds what each row plants, and nothing in the file as it is."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "setup"))

import compose  # noqa: E402 - set-up is no package

TEXT = compose.PATH.read_text(encoding="utf-8")


def test_the_file_as_it_is_has_nothing_wrong():
    assert compose.complaints(TEXT) == []
    assert compose.main() == 0


PLANTED = [
    ("a misspelled key", "    profiles: [model]", "    profile: [model]", "model: profile is no key of a service"),
    ("a key twice", "    profiles: [model]", "    profiles: [model]\n    profiles: []", "profiles stands twice"),
    ("a misspelled top key", "networks:\n  inside:", "network:\n  inside:", "network: no key of a compose file"),
    ("a floating tag", "postgres:16.9-bookworm", "postgres:latest", "pinned neither by digest nor by version"),
    ("no tag", "postgres:16.9-bookworm", "postgres", "pinned neither by digest nor by version"),
    ("a major version only", "postgres:16.9-bookworm", "postgres:16", "pinned neither"),
    ("a port for everybody", '"127.0.0.1:8080:8080"', '"8080:8080"', "is not text that starts with 127.0.0.1"),
    ("a port as a number", '"127.0.0.1:8081:8081"', "8081", "is not text that starts with 127.0.0.1"),
    ("a password in the file", "${POSTGRES_PASSWORD:?run python3 docker/make_secrets.py}\n    volumes: [database",
     "hunter2\n    volumes: [database", "postgres: POSTGRES_PASSWORD is written into the file"),
    ("a default password", "AIRFLOW__CORE__FERNET_KEY: ${AIRFLOW_FERNET_KEY:?run python3 docker/make_secrets.py}",
     "AIRFLOW__CORE__FERNET_KEY: ${AIRFLOW_FERNET_KEY:-abc}", "AIRFLOW__CORE__FERNET_KEY is written into the file"),
    ("a bare boolean", 'ENABLED: "False"', "ENABLED: False", "is a bare False: quote it"),
    ("root", 'user: "999:999"', 'user: "0:0"', "postgres: runs as root"),
    ("capabilities", "cap_drop: [ALL]", "cap_drop: []", "keeps capabilities"),
    ("privileges", "security_opt: [\"no-new-privileges:true\"]", "security_opt: []", "keeps capabilities"),
    ("privileged", "    profiles: [model]", "    profiles: [model]\n    privileged: true", "model: is privileged"),
    ("an unknown service", "      spark-master:\n        condition", "      spark:\n        condition", "no service"),
    ("no condition", "condition: service_completed_successfully", "required: true", "without a condition"),
    ("health of one without", "      test: [CMD, pg_isready, -U, airflow]", "      disable: true", "has no test"),
    ("no health check", "    healthcheck:\n      disable: true", "    labels: {a: b}", "has no healthcheck"),
    ("an undeclared volume", "volumes: [database:/var", "volumes: [databse:/var", "volumes databse is not declared"),
    ("an unused volume", "  database:\n\nnetworks", "  database:\n  other:\n\nnetworks", "volumes other is used by no"),
    ("an undeclared secret", "secrets: [airflow_passwords]", "secrets: [passwords]", "passwords is not declared"),
    ("no YAML", "name: hindcast", "name: [hindcast", "is no YAML"),
    ("no services", "services:", "x-services:", "has no services"),
]


@pytest.mark.parametrize(("why", "old", "new", "told"), PLANTED, ids=[p[0] for p in PLANTED])
def test_what_is_planted_is_found(why, old, new, told):
    assert old in TEXT, "the row plants nothing"
    assert told in "\n".join(compose.complaints(TEXT.replace(old, new))), why
