"""Settings of the property tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A machine that is busy with servers is slow now and then, so examples have no deadline.
settings.register_profile(
    "penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("penstock")
