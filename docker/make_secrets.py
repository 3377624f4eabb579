"""`python3 docker/make_secrets.py`: write docker/.env and docker/secrets/ with fresh random passwords and keys, once.

Refuses to overwrite: a new Fernet key or user salt makes what the old one protected unreadable. `--rotate NAME`
replaces one value of .env and prints what follows from it.
"""

import base64
import json
import os
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLLOWS = {
    "POSTGRES_PASSWORD": "change it in the database too: ALTER USER airflow PASSWORD '…'",
    "AIRFLOW_FERNET_KEY": "connections that are stored in Airflow must be entered again",
    "AIRFLOW_JWT_SECRET": "running tasks lose their token: do it while nothing runs",
    "AIRFLOW_SECRET_KEY": "everyone is logged out",
    "HINDCAST_USER_SALT": "users of old and new days are no longer the same; HINDCAST_USER_SALT_ID was renewed with it",
}


def values() -> dict[str, str]:
    """Fresh values for every variable of .env."""
    made = {name: secrets.token_urlsafe(32) for name in FOLLOWS}
    made["AIRFLOW_FERNET_KEY"] = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return made | {"HINDCAST_USER_SALT_ID": datetime.now(UTC).strftime("%Y-%m-%d"), "HINDCAST_API_KEY": ""}


def write(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def create(folder: Path) -> str:
    """Write both files; returns the operator's password. FileExistsError where they are there already."""
    if (folder / ".env").exists():
        raise FileExistsError(f"{folder / '.env'} is there: rotate single values with --rotate NAME")
    password = secrets.token_urlsafe(16)
    write(folder / "secrets" / "passwords.json", json.dumps({"operator": password}))
    write(folder / ".env", "".join(f"{name}={value}\n" for name, value in values().items()))
    return password


def rotate(folder: Path, name: str) -> str:
    """Replace one value (a salt with its id); returns what follows from it. KeyError for an unknown name."""
    renewed = {name} | ({"HINDCAST_USER_SALT_ID"} if name == "HINDCAST_USER_SALT" else set())
    fresh, consequence = values(), FOLLOWS[name]
    pairs = dict(line.split("=", 1) for line in (folder / ".env").read_text(encoding="utf-8").splitlines())
    write(folder / ".env", "".join(f"{k}={fresh[k] if k in renewed else v}\n" for k, v in pairs.items()))
    return consequence


def main() -> int:
    """Entry."""
    try:
        if sys.argv[1:2] == ["--rotate"]:
            print(rotate(HERE, sys.argv[2]))
        else:
            print(f"Airflow at http://127.0.0.1:8080: user operator, password {create(HERE)}")
    except FileExistsError as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyError, IndexError):
        print(f"--rotate takes one of {', '.join(FOLLOWS)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
