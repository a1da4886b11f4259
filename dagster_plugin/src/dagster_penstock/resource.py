"""The resource that copies the tables of an asset function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_penstock.copies.table_copy import Copied
from dagster_penstock.copy_step import copy_assets


class PenstockResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A resource that copies tables."""

    degree: int | None = Field(
        default=None,
        description=(
            "The most streams at once, in each step; by default the `degree` of each CopySpec."
            " 0: one per CPU, -n: CPUs divided by n."
        ),
    )

    def copy(  # type: ignore[override]
        self, context: dg.AssetExecutionContext, *, s3: Any = None
    ) -> Iterator[Copied]:
        """Copy the selected assets of `penstock_assets`, and yield their events.

        A partitioned asset yields a materialization for each partition as it is committed.

        Parameters:
            s3: a `dagster_aws.s3.S3Resource`, or an object with its fields: keys, endpoint and
                region for `s3://` URLs; by default the machine that runs the step finds them.

        Raises:
            Failure: some partitions could not be copied; its metadata says which and why. The
                others are copied.
        """
        yield from copy_assets(context, self.degree, s3)
