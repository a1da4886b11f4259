"""Values of Python that templates in `defs.yaml` use."""

from datetime import timedelta

import dagster as dg


@dg.template_var
def daily() -> dg.FreshnessPolicy:
    """A table that is older than a day is overdue."""
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(days=1))
