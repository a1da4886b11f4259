"""Copies on a real Airflow with both executors; it is shared, because it uses half a CPU."""

import pytest

from .local_approvals import *  # noqa: F403
from .local_celery import *  # noqa: F403
from .local_clearing import *  # noqa: F403
from .local_copies import *  # noqa: F403
from .local_corrected_row import *  # noqa: F403
from .local_events import *  # noqa: F403
from .local_nights import *  # noqa: F403
from .local_snapshots import *  # noqa: F403
from .local_table import *  # noqa: F403

# A test may have to wait for all earlier ones to end.
pytestmark = [pytest.mark.airflow_stack, pytest.mark.timeout(900)]
