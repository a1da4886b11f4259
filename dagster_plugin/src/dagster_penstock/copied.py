"""One table in a step: the core's events in the step's log, and what came of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from typing import Any

import dagster as dg

import penstock
from dagster_penstock.checks import NAMES
from dagster_penstock.failing import Trouble
from dagster_penstock.identity import request_of
from dagster_penstock.told import Told
from penstock import (
    CopySpec,
    Event,
    Finished,
    PenstockError,
    Verified,
    narrate,
    report_text,
    streams,
)

Copied = (
    dg.AssetMaterialization
    | dg.MaterializeResult[Any]
    | dg.AssetCheckEvaluation
    | dg.AssetCheckResult
    | dg.Output[Any]
)
GO_ON = "re-execute the Dagster run from failure; what is committed is left alone"


class Copy(ABC):
    """
    Parameters:
        most: streams at once, whatever the spec says.
    """

    keys: Mapping[str, str]
    """Partition keys by the core's ids; empty of a whole table."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        asset: dg.AssetKey,
        spec: CopySpec,
        most: int | None,
    ) -> None:
        self._context = context
        self._asset = asset
        self._spec = spec
        self._degree = min(streams(degree) for degree in (spec.degree, most) if degree is not None)
        self._told = Told(context, asset)
        self._finished: Finished | None = None
        self._verified: Verified | None = None
        self.keys = {}

    @abstractmethod
    def run(self) -> Iterator[Copied]:
        """
        Raises:
            PenstockError: something could not be copied; `trouble` says what.
        """

    def trouble(self, error: PenstockError) -> Trouble:
        return Trouble(self._asset, error, self._finished, self.keys or None)

    @cached_property
    def _request(self) -> str:
        return request_of(self._context)

    def _resume(self, run_id: str, *, commits: bool) -> Iterator[Event]:
        """Copy what the run has not committed yet. That both sides differ is no error here: it is
        what the check says.

        Parameters:
            commits: say each partition that is committed in the log.
        """
        events = penstock.resume(
            run_id,
            source=self._spec.source,
            target=self._spec.target,
            control_schema=self._spec.control_schema,
            degree=self._degree,
        )
        name = self._asset.to_user_string()
        try:
            with closing(events):
                for event in narrate(
                    events, lambda line: self._context.log.info(f"{name}: {line}"), commits=commits
                ):
                    if isinstance(event, Verified):
                        self._verified = event
                    elif isinstance(event, Finished):
                        self._finished = event
                    yield event
        except PenstockError:
            if self._verified is None or self._verified.ok:
                raise
        finally:
            if self._finished is not None:
                report = report_text(self._finished, GO_ON)
                self._context.log.info(f"{name}: the run's report\n{report}")

    @property
    def _checked(self) -> bool:
        """Whether the asset has a check, and it is selected."""
        return any(key.asset_key == self._asset for key in self._context.selected_asset_check_keys)

    @property
    def _blocking(self) -> bool:
        return any(
            check.blocking
            for check in self._context.assets_def.check_specs
            if check.asset_key == self._asset and check.name in NAMES.values()
        )
