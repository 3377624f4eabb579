"""Stored tables against their contracts: what may have changed since they were written, and what is refused."""

import json

from deltalake import DeltaTable

from jobs.core.errors import ContractError
from schemas.contract import Table


def check_readable(spec: Table, found: DeltaTable) -> None:
    """ContractError unless the stored table differs from its contract at most by columns that one of them lacks."""
    wrong = spec.evolution(json.loads(found.schema().to_json())["fields"], found.metadata().partition_columns)[1]
    if wrong:
        raise _refused(spec, wrong)


def check_writable(spec: Table, found: DeltaTable) -> None:
    """ContractError if the stored table has columns that the contract does not declare: a write would lose them."""
    strangers = spec.strangers(json.loads(found.schema().to_json())["fields"])
    if strangers:
        raise _refused(spec, [f"{name} is there and not declared here" for name in strangers])


def _refused(spec: Table, wrong: list[str]) -> ContractError:
    return ContractError(
        f"table {spec.name} does not fit its contract, version {spec.version}: {'; '.join(wrong)}. A contract only"
        " gains nullable columns: use the version of Hindcast that wrote the table, or build a new store from the logs"
        " (`hindcast night --from --to` with another `store`)"
    )
