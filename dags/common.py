"""What both DAGs share: defaults, limits of time, pools, and the one Spark-submit helper."""

import os
from datetime import timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.notices import notices
from dags.operators import BIN, FINAL, HOME
from schemas.environment import environment

SPARK_POOL, ENDPOINT_POOL = "spark", "endpoint"  # made by `airflow pools set`; see setup/airflow_here.py
DEFAULTS = {
    "owner": "hindcast",
    "retries": 2,  # lost executors, endpoints and object stores come back
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
}
LIMITS = {
    "spark": timedelta(hours=3),  # 100 million rows take minutes; three hours are a hung cluster
    "light": timedelta(hours=1),
    "shard": timedelta(hours=7),  # above judging's own run_deadline_s, after which it stops by itself
    "corpus": timedelta(hours=4),  # skills ask a model, cluster by cluster
}
ON_FAILURE = notices()


class SparkStep(SparkSubmitOperator):
    """spark-submit, with the exit codes of the submitted command: 2 and 3 are not retried."""

    def execute(self, context) -> None:
        """Submit and wait."""
        try:
            super().execute(context)
        except AirflowException as error:
            submitted = getattr(self._hook, "_submit_sp", None)
            if submitted is not None and submitted.returncode in FINAL:
                raise AirflowFailException(str(error)) from error
            raise


def spark_step(*, arguments: list[str], **options) -> SparkStep:
    """A step that needs a JVM, submitted to the master of the connection `spark_default`.

    The hook starts whatever `spark-submit` is first on the PATH, so the jobs environment is put there.
    """
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    variables = environment(HOME) | {"PATH": path, "PYSPARK_PYTHON": str(BIN / "python")}
    jars = ",".join(sorted(str(jar) for jar in (HOME / ".jars").glob("*.jar")))
    return SparkStep(application=str(HOME / "jobs" / "__main__.py"), application_args=[*arguments, "--json"],
                     jars=jars, env_vars=variables, pool=SPARK_POOL, name="{{ task.task_id }}",
                     driver_memory=os.environ.get("HINDCAST_SPARK__DRIVER_MEMORY", "2g"), **options)
