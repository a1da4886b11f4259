"""Copies on one real Airflow with both executors, which itself takes half a CPU while it runs."""

import pytest

from .local_celery import *  # noqa: F403
from .local_clearing import *  # noqa: F403
from .local_copies import *  # noqa: F403
from .local_mended import *  # noqa: F403
from .local_nights import *  # noqa: F403
from .local_snapshots import *  # noqa: F403
from .local_table import *  # noqa: F403

# Every test may wait for all that began before it.
pytestmark = [pytest.mark.airflow_stack, pytest.mark.timeout(900)]
