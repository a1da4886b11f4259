"""`penstock tune` with a database that cannot have a scratch table."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import CopySpec, UsageError, tune


def test_tune_rejects_a_target_without_scratch_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    with pytest.raises(UsageError, match="as a target does not support penstock tune"):
        next(tune(CopySpec(source=url, target=url, table="main.t")))
