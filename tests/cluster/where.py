"""Run as a script by test_standalone.py: where executors import from, said by tasks on them as one JSON line."""

import json
import sys

from jobs.core.settings import load_settings
from jobs.core.spark import SparkProvider, run_tasks


def where(spec: dict) -> dict:
    """Spark task (pickled by value, since it belongs to a script): places of what it imports, and its machine's."""
    import os
    import time

    import polars

    import jobs.impressions.tasks
    import schemas

    time.sleep(2)  # long enough that the other executor takes the next one
    return {
        "jobs": jobs.impressions.tasks.__file__,
        "schemas": schemas.__file__,
        "polars": polars.__file__,
        "path": sys.path,
        "python": sys.executable,
        "cwd": os.getcwd(),
        "zone": os.environ.get("TZ"),
    }


if __name__ == "__main__":
    settings = load_settings(sys.argv[1])
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    found = run_tasks(spark, where, [{}] * 6)
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")
