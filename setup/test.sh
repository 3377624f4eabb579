#!/bin/sh
# Without arguments the quick tests: the DAGs in Airflow's environment, everything else in the jobs environment.
# With arguments those folders of tests/; a folder without tests is named and passed over.
set -e
there() { [ -n "$(find "tests/$1" -name 'test_*.py' 2>/dev/null | head -1)" ] || { echo "tests/$1: no tests"; return 1; }; }

if [ $# -eq 0 ]; then
  .venv-airflow/bin/python -m pytest -q tests/dags
  set -- unit contracts golden spark e2e
  folders=
  for name in "$@"; do there "$name" && folders="$folders tests/$name"; done
  exec .venv/bin/python -m pytest -q --durations=15 $folders
fi
for name in "$@"; do
  if there "$name"; then .venv/bin/python -m pytest -q --durations=10 "tests/$name"; fi
done
