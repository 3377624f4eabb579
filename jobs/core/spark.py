"""The Spark session of a process, and tasks on it.

Heavy steps are functions from a small dict to a small dict that read and write their own files with a columnar library;
Spark spreads them over cores or executors. `local[*]` runs with flags for short runs, a cluster with its own; its
executors are sent the archives of `hindcast package` when `[spark] package` names them.
"""

import json
import os
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from jobs.core import class_data
from jobs.core.errors import MachineError
from jobs.core.settings import Spark as SparkSettings
from jobs.core.storage import is_object_store, spark_uri
from jobs.core.tables import DataFile, read_files
from schemas.contract import Table

Task = Callable[[dict], dict]

_LOG = Path(__file__).with_name("log4j2.properties")
_JVM = "-Dderby.system.home={home} -Dlog4j2.configurationFile=file:{log}"
_LOCAL_JVM = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms64m -XX:NewSize=16m -XX:MaxNewSize=48m {_JVM}"
"""Short local runs: one collector thread and the quick compiler save about half of the start-up, a small first heap 100
MB; not for clusters."""


_LOCAL_PYTHON = {
    "spark.python.daemon.module": "jobs.core.python_daemon",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Workers start and take tasks without delay: over TCP each task waits 40 ms for an acknowledgement of its specs."""


_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.dir", 60
"""A socket's path has 107 bytes at most, its name 43; with a longer scratch folder sockets go to Java's own."""


def local_jvm() -> str:
    """Flags of a JVM on this machine, apart from the class archive."""
    return _LOCAL_JVM.format(home=_scratch(), log=_LOG)


def _scratch() -> str:
    return os.environ.get("HINDCAST_SCRATCH") or tempfile.gettempdir()


def home() -> Path:
    """The checkout (or installed archive) that holds jars and environments; HINDCAST_HOME overrides."""
    return Path(os.environ.get("HINDCAST_HOME") or Path(__file__).resolve().parents[2])


def delta_jars() -> list[str]:
    """Paths of the Delta jars that the set-up fetched; MachineError if there are none."""
    jars = sorted(str(p) for p in (home() / ".jars").glob("*.jar"))
    if not jars:
        raise MachineError(f"no Delta jars in {home() / '.jars'}: run `make setup`, which fetches and verifies them")
    return jars


def s3a_jars() -> list[str]:
    """Paths of the optional jars with which Spark itself opens s3a:// (`make setup-s3a`); empty without them."""
    return sorted(str(p) for p in (home() / ".jars-s3a").glob("*.jar"))


_OF_THE_SUBMISSION = ("spark.jars", "spark.driver.memory", "spark.driver.extraJavaOptions")
_PYTHON = "spark.pyspark.python"


def submitted() -> bool:
    """True in a driver that spark-submit started: master, jars and memory are then those of the submission."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


class SparkProvider:
    """Starts one session on first use and hands it to every step of the process; `stop` ends its JVM."""

    def __init__(self, settings: SparkSettings, *, store_uri: str) -> None:
        self._settings = settings
        self._store_uri = store_uri
        self._session: Any = None
        self.start_seconds, self.starts = 0.0, 0

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
            self.start_seconds, self.starts = time.monotonic() - begun, self.starts + 1
        return self._session

    @property
    def slots(self) -> int:
        """Tasks that run at the same time."""
        return int(self.session.sparkContext.defaultParallelism)

    def stop(self) -> None:
        """End the session and its JVM; does nothing if none was started.

        A JVM that has gone by itself is no failure here: whoever needed it has been told, and whoever did not is done.
        """
        if self._session is not None:
            from py4j.protocol import Py4JError

            with suppress(Py4JError, OSError):
                _end_counters_later(self._session)
                self._session.stop()
            self._session = None

    def _start(self):
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("TZ", "UTC")
        if self._local:  # executors elsewhere must find the driver under an address of its own
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            Path(_scratch()).mkdir(parents=True, exist_ok=True)  # for the workers' sockets
        builder = SparkSession.builder.appName("hindcast")
        builder = builder if submitted() else builder.master(self._master())
        for key, value in self._conf().items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        if self._settings.package and not session.sparkContext.master.startswith("local"):
            ship(session.sparkContext, Path(self._settings.package), python=self._settings.conf.get(_PYTHON))
        return session

    def _master(self) -> str:
        return os.environ.get("HINDCAST_MASTER") or self._settings.master

    @property
    def _local(self) -> bool:
        return not submitted() and self._master().startswith("local")

    def _conf(self) -> dict[str, str]:
        scratch = _scratch()
        conf = {
            "spark.jars": ",".join([*delta_jars(), *(s3a_jars() if is_object_store(self._store_uri) else [])]),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.driver.memory": self._settings.driver_memory,
            "spark.driver.extraJavaOptions": _JVM.format(home=scratch, log=_LOG),
            "spark.executorEnv.TZ": "UTC",
            "spark.task.maxFailures": "4",
        }
        if self._local:
            conf["spark.local.dir"] = scratch  # of a cluster, the machines say it themselves
            conf["spark.driver.bindAddress"] = conf["spark.driver.host"] = "127.0.0.1"
            conf["spark.driver.extraJavaOptions"] = f"{local_jvm()} {class_data.options()}".strip()
            conf |= _LOCAL_PYTHON | ({_SOCKETS: scratch} if len(scratch.encode()) <= _SOCKET_FOLDER else {})
        if submitted():  # the driver's JVM runs already, with the jars, memory and addresses of the submission
            conf = {key: value for key, value in conf.items() if key not in _OF_THE_SUBMISSION}
        if is_object_store(self._store_uri):
            conf |= _object_store_conf()
        return conf | self._settings.conf


def _end_counters_later(session: Any) -> None:
    """Let the server of Spark's accumulators end beside us: it asks once a second whether it may, and a stop waits."""
    server = getattr(getattr(session, "sparkContext", None), "_accumulatorServer", None)
    if server is not None:
        ended = server.shutdown
        server.shutdown = lambda: threading.Thread(target=ended, daemon=True).start()


def shipped(folder: Path) -> tuple[Path, Path]:
    """The code and the packages that `hindcast package` wrote into `folder`; MachineError if one is not there once."""
    found = [sorted(folder.glob(pattern)) for pattern in ("hindcast-*.zip", "packages-*.tar.gz")]
    if [len(paths) for paths in found] != [1, 1]:
        raise MachineError(f"[spark] package: {folder} does not hold the two archives: run `hindcast package --out`")
    return found[0][0], found[1][0]


def check_fresh(code: Path) -> None:
    """MachineError unless the archives were made from the code and the package versions of this driver.

    Executors of an older version would compute, in silence, something else than what the manifest says.
    """
    from jobs.core.context import code_sha256

    try:
        with zipfile.ZipFile(code) as archive:
            made = json.loads(archive.comment or b"{}")
    except (zipfile.BadZipFile, ValueError):
        made = {}
    held = {d.name.lower().replace("_", "-"): d.version for d in metadata.distributions()}
    others = [name for name, version in made.get("packages", {}).items() if held.get(name) != version]
    if made.get("code") != code_sha256() or others:
        what = f"other versions of {', '.join(others)}" if others else "other code"
        raise MachineError(f"[spark] package: {code} was made from {what}: run `hindcast package --out {code.parent}`")


def ship(context: Any, folder: Path, *, python: str | None) -> None:
    """Let executors import jobs and its packages from the archives alone, with `python` or a bare one of this version.

    Works in a session that is started here and in one of spark-submit, whose own options cannot be changed any more.
    """
    code, packages = shipped(folder)
    check_fresh(code)
    context.addPyFile(str(code))
    context.addArchive(f"{packages}#packages")
    context.environment["PYTHONPATH"] = "packages"  # below the executor's working folder, where Spark unpacks archives
    context.pythonExec = python or f"python{sys.version_info[0]}.{sys.version_info[1]}"


def run_tasks(spark: SparkProvider, function: Task, specs: Sequence[dict], *, label: str = "") -> list[dict]:
    """Run `function(spec)` as one Spark task a spec and return the results in the order of the specs.

    `function` is defined at module level and reads and writes its own files; specs and results are small plain dicts.
    The module is imported by workers, never pickled by value. Empty specs give an empty list without starting a JVM.
    Where specs say their `size` (of any unit), the largest start first, so that none of them runs alone at the end.
    """
    if not specs:
        return []
    context = spark.session.sparkContext
    context.setJobDescription(label or function.__name__)
    order = sorted(range(len(specs)), key=lambda i: -specs[i].get("size", 0))
    found = context.parallelize([specs[i] for i in order], len(specs)).map(function).collect()
    return [result for _, result in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]


def read_delta(spark: SparkProvider, uri: str, *, version: int | None = None):
    """A Spark frame of a Delta table at a version, through delta-spark."""
    reader = spark.session.read.format("delta")
    reader = reader if version is None else reader.option("versionAsOf", version)
    return reader.load(spark_uri(uri))


def read_parquet(session: Any, root: str, spec: Table, files: Sequence[DataFile]):
    """A Spark frame of live files of a table with its declared schema, partition columns included.

    Spark opens them itself, except on an object store without the s3a jars: then they come through the driver.
    """
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(spec.spark_json())
    if is_object_store(root) and "hadoop-aws" not in session.sparkContext.getConf().get("spark.jars", ""):
        return session.createDataFrame(read_files(spec, list(files)).to_arrow().cast(spec.arrow()), schema=schema)
    reader = session.read.schema(schema).option("basePath", spark_uri(root))
    return reader.parquet(*[spark_uri(f.uri) for f in files])


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
