"""Copies on one real Airflow with LocalExecutor: while it runs it takes half a CPU for itself."""

from .local_clearing import *  # noqa: F403
from .local_copies import *  # noqa: F403
from .local_mended import *  # noqa: F403
from .local_snapshots import *  # noqa: F403
