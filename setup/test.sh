#!/bin/sh
# The quick tests: the DAGs in Airflow's environment, everything else in the jobs environment.
set -e
.venv-airflow/bin/python -m pytest -q tests/dags
exec .venv/bin/python -m pytest -q --durations=15 tests/unit tests/contracts tests/golden tests/spark tests/e2e
