"""One declaration of a table, rendered for every engine that meets it.

A `Table` names its columns with type, nullability, key, partition, meaning, unit and checks. It renders to a Spark
schema (JSON), an Arrow schema, a Polars schema and the expectations of a data-quality suite, and checks a frame in
one pass.

A contract changes in one way: it gains a nullable column, whose `since` is the table's new `version`. Old files stay
and read as null there. Everything else (a column dropped, renamed, of another type or nullability, another partition)
is refused by `evolution`, which every read and write of a stored table asks.
"""

from dataclasses import dataclass, field

_ARROW = {
    "string": "string",
    "json": "string",
    "bigint": "int64",
    "int": "int32",
    "double": "float64",
    "boolean": "bool_",
    "date": "date32",
}
_SPARK = {
    "string": "string",
    "json": "string",
    "bigint": "long",
    "int": "integer",
    "double": "double",
    "boolean": "boolean",
    "date": "date",
}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: SQL-like type name, meaning, unit, and what its values must satisfy.

    Types: string, json (text of one JSON value), bigint, int, double, boolean, date, timestamp (UTC, microseconds),
    list of bigint, list of string.
    """

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = False
    key: bool = False
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] | None = None
    since: int = 1


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: name, columns, partition columns (in order), contract version and what a row stands for."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ()
    version: int = 1
    sorted_by: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        missing = [p for p in (*self.partition, *self.sorted_by) if p not in names]
        if missing or len(set(names)) != len(names):
            raise ValueError(f"table {self.name}: columns {missing or names} are missing or doubled")
        late = [c.name for c in self.columns if c.since > 1 and not c.nullable]
        if late or max((c.since for c in self.columns), default=1) > self.version:
            raise ValueError(
                f"table {self.name}: columns after version 1 are nullable ({late}) and no later than the table itself"
            )

    @property
    def names(self) -> list[str]:
        """Column names in declared order."""
        return [c.name for c in self.columns]

    @property
    def key(self) -> list[str]:
        """Names of the columns that make a row unique."""
        return [c.name for c in self.columns if c.key]

    def column(self, name: str) -> Column:
        """The column of that name; KeyError if there is none."""
        return {c.name: c for c in self.columns}[name]

    def arrow(self, *, partitions: bool = True):
        """The pyarrow schema; without partition columns for data files."""
        import pyarrow as pa

        chosen = [c for c in self.columns if partitions or c.name not in self.partition]
        return pa.schema([pa.field(c.name, _arrow_type(c.type), nullable=c.nullable) for c in chosen])

    def polars(self) -> dict:
        """Column name to polars type, in declared order."""
        import polars as pl

        return dict(pl.Schema(self.arrow()))  # an empty Arrow table would load pandas into every worker

    def spark_json(self) -> dict:
        """The Spark schema as its JSON object (`StructType.fromJson`), so that no Spark is imported here."""
        fields = [
            {"name": c.name, "type": _spark_type(c.type), "nullable": c.nullable, "metadata": {"comment": c.meaning}}
            for c in self.columns
        ]
        return {"type": "struct", "fields": fields}

    def evolution(self, stored: list[dict], partition: list[str]) -> tuple[list[str], list[str]]:
        """How a stored table differs from this contract: columns that it does not have yet, and what is in the way.

        stored: the fields of its schema (name, type, nullable, as in `spark_json`). Columns that only the table has are
        in the way of writing: a later version of Hindcast wrote them, or this one dropped or renamed them.
        """
        there = {f["name"]: f for f in stored}
        fits = [(c, there[c.name]) for c in self.columns if c.name in there]
        others = [(c, f) for c, f in fits if f["type"] != _spark_type(c.type)]
        wrong = [f"{c.name} is {f['type']} there and {c.type} here" for c, f in others]
        wrong += [
            f"{c.name} is {'nullable' if f['nullable'] else 'never null'} there and not here"
            for c, f in fits
            if f["nullable"] != c.nullable
        ]
        new = [c for c in self.columns if c.name not in there]
        wrong += [f"{c.name} is not there and not nullable" for c in new if not c.nullable]
        if list(partition) != list(self.partition):
            wrong.append(f"partitioned by {list(partition)} there and by {list(self.partition)} here")
        return [c.name for c in new if c.nullable], wrong

    def strangers(self, stored: list[dict]) -> list[str]:
        """Columns of a stored table that this contract does not declare."""
        return [f["name"] for f in stored if f["name"] not in self.names]

    def expectations(self) -> list[dict]:
        """The checks as (expectation type, arguments), in Great Expectations' vocabulary."""
        found: list[dict] = []
        for c in self.columns:
            if not c.nullable:
                found.append({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": c.name}})
            if c.minimum is not None or c.maximum is not None:
                bounds = {"column": c.name, "min_value": c.minimum, "max_value": c.maximum}
                found.append({"type": "expect_column_values_to_be_between", "kwargs": bounds})
            if c.allowed is not None:
                members = {"column": c.name, "value_set": list(c.allowed)}
                found.append({"type": "expect_column_values_to_be_in_set", "kwargs": members})
        return found

    def problems(self, frame) -> list[str]:
        """Every mismatch of a polars frame with this contract, each with its path; empty if the frame fits.

        One pass over the frame: types, nulls, bounds, allowed values, NaN, and uniqueness of the key.
        """
        want = self.polars()
        found = [f"{self.name}.{n}: missing" for n in want if n not in frame.columns]
        found += [f"{self.name}.{n}: not declared" for n in frame.columns if n not in want]
        fits = [c for c in self.columns if c.name in frame.columns]
        wrong = [c for c in fits if frame.schema[c.name] != want[c.name]]
        found += [f"{self.name}.{c.name}: is {frame.schema[c.name]}, declared {want[c.name]}" for c in wrong]
        return found + (self._value_problems(frame, [c for c in fits if c not in wrong]) if frame.height else [])

    def _value_problems(self, frame, columns: list[Column]) -> list[str]:
        import polars as pl

        counts = {f"{c.name}: {why}": expression for c in columns for why, expression in _violations(c)}
        if counts:
            row = frame.select(**{k: e.fill_null(value=False).sum() for k, e in counts.items()}).row(0, named=True)
        else:
            row = {}
        found = [f"{self.name}.{path} in {n} of {frame.height} rows" for path, n in row.items() if n]
        if self.key and set(self.key) <= set(frame.columns):
            doubled = frame.height - frame.select(pl.struct(self.key).n_unique()).item()
            found += [f"{self.name}: key ({', '.join(self.key)}) doubled in {doubled} rows"] if doubled else []
        return found


def _violations(column: Column):
    import polars as pl

    col = pl.col(column.name)
    if not column.nullable:
        yield "null", col.is_null()
    if column.type == "double":
        yield "not a finite number", col.is_nan() | col.is_infinite()
    if column.minimum is not None:
        yield f"below {column.minimum}", col < column.minimum
    if column.maximum is not None:
        yield f"above {column.maximum}", col > column.maximum
    if column.allowed is not None:
        yield f"not one of {', '.join(column.allowed)}", ~col.is_in(list(column.allowed))


def _arrow_type(name: str):
    import pyarrow as pa

    if name == "timestamp":
        return pa.timestamp("us", tz="UTC")
    if name.startswith("list of "):
        return pa.list_(_arrow_type(name.removeprefix("list of ")))
    return getattr(pa, _ARROW[name])()


def _spark_type(name: str) -> str | dict:
    if name == "timestamp":
        return "timestamp"
    if name.startswith("list of "):
        return {"type": "array", "elementType": _spark_type(name.removeprefix("list of ")), "containsNull": True}
    return _SPARK[name]
