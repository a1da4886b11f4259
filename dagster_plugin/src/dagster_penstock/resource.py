"""What a user's function calls to copy the tables of its assets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_penstock.copied import Copied
from dagster_penstock.copying import copy_assets


class PenstockResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Copies tables."""

    degree: int | None = Field(
        default=None,
        description=(
            "The most streams at once, in each step; by default as many as `degree` of a CopySpec"
            " says. 0: as many as the CPUs, -n: CPUs divided by n."
        ),
    )

    def copy(  # type: ignore[override]
        self, context: dg.AssetExecutionContext, *, s3: Any = None
    ) -> Iterator[Copied]:
        """Copy the selected tables of an asset of `penstock_assets`, and yield what is done.

        Of a partitioned asset, a materialization for each partition as it is committed.

        Parameters:
            s3: a `dagster_aws.s3.S3Resource`, or what has its fields, with the keys, the endpoint
                and the region for URLs of S3; by default they are found where the step runs.

        Raises:
            Failure: some partitions could not be copied; its metadata says which, and why. The
                others are copied.
        """
        yield from copy_assets(context, self.degree, s3)
