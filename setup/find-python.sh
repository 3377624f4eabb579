#!/bin/sh
# Print the first Python 3.11-3.13 on the PATH; else `python3`, so that the preconditions can say what is wrong with it.
for name in python3 python3.13 python3.12 python3.11; do
  if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; then
    echo "$name"
    exit 0
  fi
done
echo python3
