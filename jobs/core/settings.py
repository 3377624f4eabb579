"""hindcast.toml as immutable settings (formats.md): unknown keys are refused, HINDCAST_SECTION__KEY variables override.

Read once at the entry and passed in. Secrets (the user salt, API keys) are no settings: they are read from their own
environment variables where they are used, so that no dump of the settings can hold them.
"""

import hashlib
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from jobs.core.errors import SettingsError
from jobs.core.windows import WindowLengths
from schemas.judgments import VARIANTS
from schemas.names import plain_name

SECRETS = ("HINDCAST_USER_SALT", "HINDCAST_USER_SALT_ID", "HINDCAST_API_KEY")
"""Environment variables with the prefix that are secrets or their ids, not settings."""

RESERVED = ("HINDCAST_CONFIG", "HINDCAST_HOME", "HINDCAST_JOBS_BIN", "HINDCAST_MASTER", "HINDCAST_SCRATCH")
"""Environment variables with the prefix that the set-up and the DAGs use."""

OF_THE_DAGS = "HINDCAST_DAGS_"
"""Prefix of variables that only dags/ reads (notices, polling); tasks inherit them."""

Variant = Literal[VARIANTS]
Weekday = Literal["", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _off(value: Any) -> Any:
    """TOML and environment variables have no null: "off" stands for it."""
    return None if value == "off" else value


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    doubled = sorted({v for v in values if values.count(v) > 1})
    if doubled:
        raise ValueError(f"{', '.join(doubled)} stands twice: name each once")
    return values


class Retrieval(_Part):
    """Queries and qrels on which skills are evaluated; discovery never reads them."""

    queries: str = ""
    qrels: str = ""


class Corpus(_Part):
    """One document collection: its locales, catalogue, documents and human labels."""

    locales: tuple[str, ...] = ()
    items: str = ""
    documents: str = ""
    retrieval: Retrieval = Retrieval()
    labels: str = ""
    labels_map: str = ""


class Source(_Part):
    """One declared raw log (formats.md, [[sources]])."""

    name: str
    corpus: str
    path: str
    format: Literal["ubi", "csv", "jsonl", "parquet", "delta"] = "ubi"
    columns: dict[str, str] = {}
    values: dict[str, str] = {}
    defaults: dict[str, str] = {}
    rank_base: dict[str, int] = {"default": 1}
    shown: Literal["auto", "listed", "displayed"] = "auto"
    time_zone: str = ""
    actions: dict[str, str | float] = {"impression": "impression", "click": "click"}
    max_rejected: float = Field(default=0.05, ge=0, le=1)
    lateness_days: int = Field(default=3, ge=0)
    max_impressions_per_session_hour: int = Field(default=1000, ge=1)
    max_queries_per_user_day: int = Field(default=2000, ge=1)

    @field_validator("name", "corpus")
    @classmethod
    def _named(cls, value: str) -> str:
        return plain_name(value)

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        """The names of the IANA database; an empty one means that times state their own offset."""
        try:
            return value and ZoneInfo(value).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("is no zone of the IANA database: write it like 'UTC' or 'Europe/Berlin'") from None


class Privacy(_Part):
    """What must never reach a card, page or report, and how long refused rows are kept."""

    sensitive_queries: str = ""
    rejected_days: int = Field(default=14, ge=0)


class Windows(_Part):
    """Lengths of the windows in days."""

    evaluation_days: int = Field(default=10, ge=1)
    gap_days: int = Field(default=7, ge=0)
    evidence_days: int = Field(default=30, ge=1)
    min_evidence_days: int = Field(default=7, ge=1)

    @property
    def lengths(self) -> WindowLengths:
        """The same as the plain value that jobs.core.windows works with."""
        return WindowLengths(**self.model_dump())


class Propensity(_Part):
    """How examination curves are made."""

    estimator: Literal["auto", "randomised", "allpairs", "pbm_em", "declared"] = "auto"
    declared_eta: float = Field(default=1.0, gt=0)
    declared_table: dict[str, float] = {}
    max_rank: int = Field(default=10, ge=2)
    bootstrap: int = Field(default=200, ge=0)
    by_segment: bool = False
    sample_queries: int = Field(default=20_000, ge=1)
    floor: float = Field(default=0.01, gt=0, lt=1)


class Evidence(_Part):
    """Evidence rows and cards."""

    min_users: int = Field(default=20, ge=1)
    top_k: int = Field(default=10, ge=1)
    embedding_model: str = "all-MiniLM-L6-v2"
    near_duplicate_cosine: float = Field(default=0.9, gt=0, le=1)
    relevance: Literal["ratio", "ratio_eb", "ips", "weighted", "ctr"] = "ratio"
    prior: Literal["query", "rank_band", "global"] = "rank_band"
    other_locales: bool = False
    by_segment: bool = False


class Pages(_Part):
    """The Logs set."""

    queries: int = Field(default=5000, ge=1)
    users: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (20, 400)
    degraded_share: float = Field(default=0.2, ge=0, le=1)
    min_item_relevance: float = Field(default=0.3, ge=0)
    min_item_impressions: int = Field(default=20, ge=1)
    instances: int = Field(default=3, ge=1)
    strata: Annotated[tuple[Literal["locale", "popularity"], ...], AfterValidator(_distinct)] = ()

    @field_validator("users")
    @classmethod
    def _ordered(cls, value: tuple[int, int]) -> tuple[int, int]:
        if value[0] > value[1]:
            raise ValueError(f"the least is above the most, so no query fits: write [{value[1]}, {value[0]}]")
        return value


class Judging(_Part):
    """Which judge grades, what it sees, and what it may cost (`budget_usd = "off"`: without a limit)."""

    judge: Literal["offline-baseline", "openai", "local"] = "offline-baseline"
    kind: Literal["page", "item"] = "page"
    model: str = ""
    base_url: str = ""
    prompts: str = ""
    item_fields: Annotated[tuple[str, ...], AfterValidator(_distinct)] = ()
    variants: Annotated[tuple[Variant, ...], Field(min_length=1), AfterValidator(_distinct)] = ("plain", "qri")
    ablation_weekday: Annotated[Weekday, BeforeValidator(lambda v: v.lower() if isinstance(v, str) else v)] = "sunday"
    judge_on_backfill: bool = False
    budget_usd: Annotated[float | None, BeforeValidator(_off)] = Field(default=20.0, ge=0)
    max_pages: int = Field(default=0, ge=0)
    shard_pages: int = Field(default=2000, ge=1)
    max_shards: int = Field(default=200, ge=1)
    slots: int = Field(default=64, ge=1)
    requests_per_minute: int = Field(default=0, ge=0)
    tokens_per_minute: int = Field(default=0, ge=0)
    request_timeout_s: float = Field(default=60.0, gt=0)
    run_deadline_s: float = Field(default=6 * 3600.0, gt=0)
    max_output_tokens: int = Field(default=300, ge=16)
    context_tokens: int = Field(default=0, ge=0)
    temperature: float = Field(default=0.0, ge=0)
    samples: int = Field(default=1, ge=1)
    seed: int = 0
    batch: bool = False
    model_path: str = ""
    prices: str = ""
    max_outage_s: float = Field(default=1800.0, gt=0)
    anchor_pages: int = Field(default=50, ge=0)
    repeat_pages: int = Field(default=50, ge=0)


class Skills(_Part):
    """SkillQR discovery."""

    max_skills: int = Field(default=5, ge=1)
    max_rounds: int = Field(default=3, ge=1)
    clusters: int = Field(default=0, ge=0)
    seed: int = 0


class Gates(_Part):
    """Thresholds under which a report is published but marked (exit code 3); "off" switches one off."""

    min_spearman: Annotated[float | None, BeforeValidator(_off)] = Field(default=0.2, ge=-1, le=1)
    max_unscored: Annotated[float | None, BeforeValidator(_off)] = Field(default=0.02, ge=0, le=1)


class Report(_Part):
    """The report: gates, bootstrap, where the site goes (empty: only into the store), whether the log is simulated."""

    gates: Gates = Gates()
    bootstrap: int = Field(default=2000, ge=100)
    seed: int = 0
    min_slice: int = Field(default=30, ge=2)
    simulated: bool = False
    site: str = "report/"


class Housekeeping(_Part):
    """What `hindcast housekeeping` keeps: runs of the last days of the log, and every file of the last hours."""

    retain_days: int = Field(default=180, ge=1)
    grace_hours: int = Field(default=24, ge=0)
    small_mib: int = Field(default=16, ge=1)


class Spark(_Part):
    """Where Spark runs; `local[*]` is the embedded default. A cluster is sent the archives in the folder `package`."""

    master: str = "local[*]"
    package: str = ""
    driver_memory: str = "2g"
    conf: dict[str, str] = {}
    max_collected_rows: int = Field(default=5_000_000, ge=1)


class Settings(_Part):
    """All settings; `root` is the folder that relative paths of the file start from."""

    root: str = "."
    store: str = Field(default="store/", min_length=1)
    corpora: dict[str, Corpus] = {}
    sources: tuple[Source, ...] = ()
    privacy: Privacy = Privacy()
    windows: Windows = Windows()
    propensity: Propensity = Propensity()
    evidence: Evidence = Evidence()
    pages: Pages = Pages()
    judging: Judging = Judging()
    skills: Skills = Skills()
    report: Report = Report()
    housekeeping: Housekeeping = Housekeeping()
    spark: Spark = Spark()

    @field_validator("corpora")
    @classmethod
    def _named(cls, value: dict[str, Corpus]) -> dict[str, Corpus]:
        for name in value:
            plain_name(name, kind="corpus")
        return value

    @model_validator(mode="after")
    def _sources_fit(self) -> "Settings":
        names = [s.name for s in self.sources]
        doubled = sorted({n for n in names if names.count(n) > 1})
        if doubled:
            raise ValueError(f"sources {', '.join(doubled)} stand twice: give each source a name of its own")
        unknown = sorted({s.corpus for s in self.sources} - set(self.corpora))
        if unknown:
            raise ValueError(f"sources name the corpora {', '.join(unknown)}, which have no [corpora.NAME] table")
        return self

    def path(self, text: str) -> str:
        """A path or URI of the file, relative ones resolved against `root`; empty stays empty."""
        if not text or "://" in text or Path(text).is_absolute():
            return text
        return str(Path(self.root) / text)

    @property
    def store_uri(self) -> str:
        """Root of the store as an absolute local path or a URI."""
        return self.path(self.store).rstrip("/")

    def sha256(self) -> str:
        """Hash of everything that can change a result (paths resolved apart), as run manifests record it."""
        return hashlib.sha256(json.dumps(self.recorded(), sort_keys=True).encode()).hexdigest()

    def recorded(self) -> dict[str, Any]:
        """Everything that can change a result, as plain values for a manifest; no user or password of an address."""
        text = self.model_dump_json(exclude={"root", "store", "spark", "housekeeping"})
        return json.loads(re.sub(r"""(?<=://)[^/@"\\\s]*@""", "", text))


def load_settings(path: str | Path | None, *, environment: dict[str, str] | None = None, **overrides: Any) -> Settings:
    """Read hindcast.toml (or defaults when `path` is None), then HINDCAST_… variables, then `overrides`.

    `overrides` are dotted-path values as nested dicts, for command-line options. Raises SettingsError naming every
    unknown key and every value that does not fit.
    """
    body = _read(path)
    for name, text in sorted((os.environ if environment is None else environment).items()):
        if name.startswith("HINDCAST_") and name not in SECRETS + RESERVED and not name.startswith(OF_THE_DAGS):
            _set(body, name.removeprefix("HINDCAST_").lower().split("__"), _value(text), name)
    merged = merge(body, overrides)
    merged.setdefault("root", str(Path(path).resolve().parent) if path else str(Path.cwd()))
    try:
        return _with_package(Settings.model_validate(merged))
    except ValidationError as error:
        raise SettingsError(f"{path or 'settings'}: {mismatches(error)}") from None


def _with_package(settings: Settings) -> Settings:
    """`[spark] package` resolved like every path of the file; sessions know no root."""
    spark = settings.spark.model_copy(update={"package": settings.path(settings.spark.package)})
    return settings.model_copy(update={"spark": spark})


def mismatches(error: ValidationError, *, table: str = "") -> str:
    """Every value that does not fit, with its path (below `table`), on one line."""
    return "; ".join(f"{table}{'.' if table else ''}{_told(one)}" for one in error.errors())


def _told(error: Any) -> str:
    """One mismatch; the value of an unknown key is not repeated, since it may be a mistyped secret."""
    where = ".".join(map(str, error["loc"])) or "settings"
    if error["type"] == "extra_forbidden":
        return f"{where}: is no setting; check its spelling"
    shown = f" (got {error['input']!r:.80})" if error["loc"] else ""
    return f"{where}: {error['msg'].removeprefix('Value error, ')}{shown}"


def merge(base: dict, over: dict) -> dict:
    """`base` with `over` laid over it, tables merged key by key; neither is changed."""
    out = dict(base)
    for key, value in over.items():
        out[key] = merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def _read(path: str | Path | None) -> dict:
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file; pass --config with the path of your hindcast.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is no TOML file ({error}); mend that line") from None


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _set(body: dict, keys: list[str], value: Any, name: str) -> None:
    for key in keys[:-1]:
        body = body.setdefault(key, {})
        if not isinstance(body, dict):
            raise SettingsError(f"{name}: {key} is a value, not a table; check the spelling of the variable")
    body[keys[-1]] = value
