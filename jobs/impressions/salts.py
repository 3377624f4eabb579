"""Which secret hashes user ids: HINDCAST_USER_SALT, else one that the store keeps for itself.

Rotation: set a new HINDCAST_USER_SALT (and, if wished, HINDCAST_USER_SALT_ID). Hashes of two salts never meet: rows
carry
salt_id, and a window over a rotation takes the maximum of distinct users per salt, never their sum, so that k-anonymity
errs on the safe side.
"""

import os
import secrets

from jobs.core.tables import Store
from jobs.impressions.privacy import Salt, make_salt

_PATH = "secrets/user_salt"


def salt_of(store: Store, *, simulated: bool = False, environment: dict[str, str] | None = None) -> Salt:
    """The salt of this store; drawn at random and kept in it at the first use where the environment gives none.

    A simulated log has invented users: its salt is fixed, so that two machines make the same tables.
    """
    given = os.environ if environment is None else environment
    name = given.get("HINDCAST_USER_SALT_ID", "")
    if given.get("HINDCAST_USER_SALT"):
        return make_salt(given["HINDCAST_USER_SALT"], name=name)
    if simulated:
        return make_salt("simulated users", name="simulated")
    if not store.exists(_PATH):
        store.documents.write_bytes(_PATH, secrets.token_hex(32).encode())
    return make_salt(store.documents.read_bytes(_PATH).decode(), name=name)
