#!/bin/sh
# Finds a Python and hands over to bootstrap.py.
# Usage: bootstrap.sh VENV [--lock | --airflow2 | --docs | --lowest | --native | --pure FOLDER | --wheels FOLDER]
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
for python in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" -I "$here/bootstrap.py" "$@"
    fi
done
echo "bootstrap: Python 3.11 or later is needed, and none was found on PATH as python3," \
    "python3.11 ... python3.14 or python; set PYTHON to name one" >&2
exit 1
