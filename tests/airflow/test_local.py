"""Copies on one real Airflow with both executors: while it runs it takes half a CPU for itself."""

import pytest

from .local_celery import *  # noqa: F403
from .local_clearing import *  # noqa: F403
from .local_copies import *  # noqa: F403
from .local_mended import *  # noqa: F403
from .local_nights import *  # noqa: F403
from .local_snapshots import *  # noqa: F403
from .local_table import *  # noqa: F403

# Every test may wait for all that has begun before it.
pytestmark = [pytest.mark.airflow_stack, pytest.mark.timeout(900)]
