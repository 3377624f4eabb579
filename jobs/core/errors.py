"""Every error that Hindcast raises on purpose: one base class, one sentence each, with the value and the way out."""


class HindcastError(Exception):
    """Base of all expected failures; the command line prints it as one line on stderr and exits with `exit_code`."""

    exit_code = 1


class UsageError(HindcastError):
    """The command was called in a way that cannot work (exit code 2)."""

    exit_code = 2


class SettingsError(UsageError):
    """hindcast.toml or a HINDCAST_ variable holds something that is not a setting."""


class GateFailed(HindcastError):
    """A report gate failed: the run is published and marked, and the command exits with 3."""

    exit_code = 3


class InputError(HindcastError):
    """An input file or row set cannot be used at all (single bad rows are quarantined instead)."""


class ContractError(HindcastError):
    """Rows do not fit their table's contract; every mismatch is listed with its path."""


class LeakageError(HindcastError):
    """A row outside its window, or evidence that a guard forbids, was about to reach a card."""


class NotThereError(HindcastError):
    """A table, run, page or file that was asked for by name does not exist."""


class ConflictError(HindcastError):
    """Another writer changed the same partition and bounded retries did not help."""


class MachineError(HindcastError):
    """The machine lacks something that Hindcast needs (Java, jars, a model, memory, disk)."""
