"""The Spark session of a process, and tasks on it.

Heavy steps are functions from a small dict to a small dict that read and write their own files with a columnar library;
Spark spreads them over cores or executors. `local[*]` runs with flags for short runs, a cluster with its own.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs.core.errors import MachineError
from jobs.core.settings import Spark as SparkSettings
from jobs.core.storage import is_object_store

Task = Callable[[dict], dict]

_LOG = Path(__file__).with_name("log4j2.properties")
_LOCAL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dderby.system.home={home} -Dlog4j2.configurationFile=file:{log}"
"""Short local runs: one collector thread and the quick compiler save about half of the start-up; not for clusters."""


def home() -> Path:
    """The checkout (or installed archive) that holds jars and environments; HINDCAST_HOME overrides."""
    return Path(os.environ.get("HINDCAST_HOME") or Path(__file__).resolve().parents[2])


def delta_jars() -> list[str]:
    """Paths of the Delta jars that the set-up fetched; MachineError if there are none."""
    jars = sorted(str(p) for p in (home() / ".jars").glob("*.jar"))
    if not jars:
        raise MachineError(f"no Delta jars in {home() / '.jars'}: run `make setup`, which fetches and verifies them")
    return jars


_OF_THE_SUBMISSION = ("spark.jars", "spark.driver.memory")


def submitted() -> bool:
    """True in a driver that spark-submit started: master, jars and memory are then those of the submission."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


class SparkProvider:
    """Starts one session on first use and hands it to every step of the process; `stop` ends its JVM."""

    def __init__(self, settings: SparkSettings, *, store_uri: str) -> None:
        self._settings = settings
        self._store_uri = store_uri
        self._session: Any = None
        self.start_seconds = 0.0

    @property
    def started(self) -> bool:
        """True once a JVM runs."""
        return self._session is not None

    @property
    def session(self):
        """The session; the first use starts the JVM."""
        if self._session is None:
            begun = time.monotonic()
            self._session = self._start()
            self.start_seconds = time.monotonic() - begun
        return self._session

    @property
    def slots(self) -> int:
        """Tasks that run at the same time."""
        return int(self.session.sparkContext.defaultParallelism)

    def stop(self) -> None:
        """End the session and its JVM; does nothing if none was started."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def _start(self):
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("TZ", "UTC")
        builder = SparkSession.builder.appName("hindcast")
        builder = builder if submitted() else builder.master(self._master())
        for key, value in self._conf().items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session

    def _master(self) -> str:
        return os.environ.get("HINDCAST_MASTER") or self._settings.master

    def _conf(self) -> dict[str, str]:
        scratch = os.environ.get("HINDCAST_SCRATCH") or tempfile.gettempdir()
        conf = {
            "spark.jars": ",".join(delta_jars()),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.driver.memory": self._settings.driver_memory,
            "spark.task.maxFailures": "4",
        }
        if submitted():  # the driver's JVM runs already, with the jars, memory and addresses of the submission
            conf = {key: value for key, value in conf.items() if key not in _OF_THE_SUBMISSION}
        elif self._master().startswith("local"):
            conf["spark.driver.bindAddress"] = conf["spark.driver.host"] = "127.0.0.1"
            conf["spark.driver.extraJavaOptions"] = _LOCAL_JVM.format(home=scratch, log=_LOG)
        if is_object_store(self._store_uri):
            conf |= _object_store_conf()
        return conf | self._settings.conf


def run_tasks(spark: SparkProvider, function: Task, specs: Sequence[dict], *, label: str = "") -> list[dict]:
    """Run `function(spec)` as one Spark task a spec and return the results in the order of the specs.

    `function` is defined at module level and reads and writes its own files; specs and results are small plain dicts.
    The module is imported by workers, never pickled by value. Empty specs give an empty list without starting a JVM.
    """
    if not specs:
        return []
    context = spark.session.sparkContext
    context.setJobDescription(label or function.__name__)
    return context.parallelize(list(specs), len(specs)).map(function).collect()


def read_delta(spark: SparkProvider, uri: str, *, version: int | None = None):
    """A Spark frame of a Delta table at a version, through delta-spark."""
    from jobs.core.storage import spark_uri

    reader = spark.session.read.format("delta")
    reader = reader if version is None else reader.option("versionAsOf", version)
    return reader.load(spark_uri(uri))


def _object_store_conf() -> dict[str, str]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    conf = {"spark.hadoop.fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    if endpoint:
        conf |= {
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https")).lower(),
        }
    return conf
