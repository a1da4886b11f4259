"""Copies on one real Airflow with both executors, which itself takes half a CPU while it runs."""

import pytest

from .local_celery import *  # noqa: F403
from .local_clearing import *  # noqa: F403
from .local_copies import *  # noqa: F403
from .local_mended import *  # noqa: F403
from .local_nights import *  # noqa: F403
from .local_snapshots import *  # noqa: F403
from .local_table import *  # noqa: F403

# A test may have to wait until all earlier ones have ended.
pytestmark = [pytest.mark.airflow_stack, pytest.mark.timeout(900)]
