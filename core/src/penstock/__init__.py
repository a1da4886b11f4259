"""Move a table in parallel partitions, each through its own COPY stream, each exactly once.

from penstock import CopySpec, run

print(run(CopySpec(source="env:SRC", target="env:DST", table="public.orders")))
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself takes some milliseconds
if TYPE_CHECKING:
    from typing import Any

    from penstock.backends.api.connection_fields import ConnectionFields
    from penstock.backends.api.execution.control import Loss
    from penstock.backends.api.registry import connection_types, url_of_connection
    from penstock.engine.api import (
        RunStatus,
        committed_in_series,
        control_ddl,
        copy,
        create,
        find_loss,
        plan,
        resume,
        status,
        statuses,
        verify,
    )
    from penstock.engine.batch import copy_all, copy_tables, resume_all
    from penstock.engine.batch_plan import BatchPlan, TablePlan, plan_all
    from penstock.engine.claimed_tables import watch_claims
    from penstock.engine.connections import (
        check_request,
        check_source,
        holds_secret,
        place_of,
        with_parameters,
    )
    from penstock.engine.found_tables import (
        FoundColumn,
        FoundTable,
        FoundTables,
        describe_tables,
        find_tables,
    )
    from penstock.engine.giving_up import forget_lost, give_up
    from penstock.engine.listing import RunEntry, batch_runs, runs
    from penstock.engine.repair import Repair, plan_repair, repair_run
    from penstock.engine.reports import report
    from penstock.engine.snapshot_holder import hold, release, require_snapshot
    from penstock.engine.source_writes import SourceWrites, source_writes
    from penstock.engine.table_requests import TableRequest
    from penstock.engine.tables_file import batch_of_file
    from penstock.engine.watermarks import (
        reset_watermark,
        set_watermark,
        watermark_history,
        watermarks,
    )
    from penstock.engine.work import work
    from penstock.engine.work_on import WorkerResult, WorkResult, work_on
    from penstock.errors import (
        Drifted,
        Interrupted,
        MissingTarget,
        NoHolder,
        Overtaken,
        PenstockError,
        PermanentError,
        PlanningError,
        RunFailed,
        RunFailedTransiently,
        SnapshotLost,
        SpecMismatch,
        Superseded,
        TargetBusy,
        TargetChanged,
        TooManyDeletes,
        TransientError,
        UsageError,
    )
    from penstock.events import (
        BatchFinished,
        BatchStarted,
        BatchTable,
        Committed,
        DegreeChanged,
        Event,
        Failed,
        Finished,
        Merged,
        Opened,
        OtherProcess,
        PartitionComparison,
        PartitionDifference,
        PartitionsChecked,
        Planned,
        Prepared,
        Progress,
        Retrying,
        Sampled,
        SnapshotChanged,
        StepChanged,
        TurnTaken,
        Verified,
        Waiting,
        Warned,
        from_line,
    )
    from penstock.figures.run_report import RunReport
    from penstock.interactive.arrow_rows import ArrowRows
    from penstock.interactive.reading import read
    from penstock.interactive.result import Result
    from penstock.interactive.run_copy import run
    from penstock.model.codec import from_json, to_json
    from penstock.model.extents import (
        Bound,
        Crossing,
        Extent,
        HashBucket,
        Key,
        KeyIsNull,
        KeyRange,
        KeyValues,
        Whole,
    )
    from penstock.model.nights import NightStatus, Watermark
    from penstock.model.plans import CHOSEN, Partition, PartitionPlan
    from penstock.model.records import CommitRecord
    from penstock.model.tables import NotCopied, Place, TableRef
    from penstock.show.html_report import run_report_html
    from penstock.show.log import (
        combined_report,
        failure_text,
        narrate,
        report_text,
        whole_report_text,
    )
    from penstock.show.markdown_report import execution_markdown, run_report_markdown
    from penstock.show.run_report import run_report_text
    from penstock.show.text import not_copied_lines
    from penstock.spec.batch_spec import BatchSpec
    from penstock.spec.copy_spec import CopySpec, value_mistakes
    from penstock.spec.modes import MODES, Ending, Entry, ModeName, mode_of
    from penstock.spec.read_spec import ReadSpec
    from penstock.spec.references import is_reference
    from penstock.spec.strategies import STRATEGIES, StrategyName
    from penstock.spec.terms import as_arguments
    from penstock.tuning.measurements import Tuning
    from penstock.tuning.sweep import tune
    from penstock.verification.result import Verification
    from penstock.watching.metrics_file import write_metrics
    from penstock.watching.spans import traced
    from penstock.workers.degree import stream_count

__all__ = [
    "CHOSEN",
    "MODES",
    "STRATEGIES",
    "ArrowRows",
    "BatchFinished",
    "BatchPlan",
    "BatchSpec",
    "BatchStarted",
    "BatchTable",
    "Bound",
    "CommitRecord",
    "Committed",
    "ConnectionFields",
    "CopySpec",
    "Crossing",
    "DegreeChanged",
    "Drifted",
    "Ending",
    "Entry",
    "Event",
    "Extent",
    "Failed",
    "Finished",
    "FoundColumn",
    "FoundTable",
    "FoundTables",
    "HashBucket",
    "Interrupted",
    "Key",
    "KeyIsNull",
    "KeyRange",
    "KeyValues",
    "Loss",
    "Merged",
    "MissingTarget",
    "ModeName",
    "NightStatus",
    "NoHolder",
    "NotCopied",
    "Opened",
    "OtherProcess",
    "Overtaken",
    "Partition",
    "PartitionComparison",
    "PartitionDifference",
    "PartitionPlan",
    "PartitionsChecked",
    "PenstockError",
    "PermanentError",
    "Place",
    "Planned",
    "PlanningError",
    "Prepared",
    "Progress",
    "ReadSpec",
    "Repair",
    "Result",
    "Retrying",
    "RunEntry",
    "RunFailed",
    "RunFailedTransiently",
    "RunReport",
    "RunStatus",
    "Sampled",
    "SnapshotChanged",
    "SnapshotLost",
    "SourceWrites",
    "SpecMismatch",
    "StepChanged",
    "StrategyName",
    "Superseded",
    "TablePlan",
    "TableRef",
    "TableRequest",
    "TargetBusy",
    "TargetChanged",
    "TooManyDeletes",
    "TransientError",
    "Tuning",
    "TurnTaken",
    "UsageError",
    "Verification",
    "Verified",
    "Waiting",
    "Warned",
    "Watermark",
    "Whole",
    "WorkResult",
    "WorkerResult",
    "as_arguments",
    "batch_of_file",
    "batch_runs",
    "check_request",
    "check_source",
    "combined_report",
    "committed_in_series",
    "connection_types",
    "control_ddl",
    "copy",
    "copy_all",
    "copy_tables",
    "create",
    "describe_tables",
    "execution_markdown",
    "failure_text",
    "find_loss",
    "find_tables",
    "forget_lost",
    "from_json",
    "from_line",
    "give_up",
    "hold",
    "holds_secret",
    "is_reference",
    "mode_of",
    "narrate",
    "not_copied_lines",
    "place_of",
    "plan",
    "plan_all",
    "plan_repair",
    "read",
    "release",
    "repair_run",
    "report",
    "report_text",
    "require_snapshot",
    "reset_watermark",
    "resume",
    "resume_all",
    "run",
    "run_report_html",
    "run_report_markdown",
    "run_report_text",
    "runs",
    "set_watermark",
    "source_writes",
    "status",
    "statuses",
    "stream_count",
    "to_json",
    "traced",
    "tune",
    "url_of_connection",
    "value_mistakes",
    "verify",
    "watch_claims",
    "watermark_history",
    "watermarks",
    "whole_report_text",
    "with_parameters",
    "work",
    "work_on",
    "write_metrics",
]

_HOMES = {
    "backends.api.connection_fields": ("ConnectionFields",),
    "backends.api.execution.control": ("Loss",),
    "backends.api.registry": ("connection_types", "url_of_connection"),
    "events": (
        "BatchFinished",
        "BatchStarted",
        "BatchTable",
        "Committed",
        "DegreeChanged",
        "Event",
        "Failed",
        "Finished",
        "Merged",
        "Opened",
        "OtherProcess",
        "PartitionComparison",
        "PartitionDifference",
        "PartitionsChecked",
        "Planned",
        "Prepared",
        "Progress",
        "Retrying",
        "Sampled",
        "SnapshotChanged",
        "StepChanged",
        "TurnTaken",
        "Verified",
        "Waiting",
        "Warned",
        "from_line",
    ),
    "interactive.arrow_rows": ("ArrowRows",),
    "interactive.reading": ("read",),
    "interactive.result": ("Result",),
    "interactive.run_copy": ("run",),
    "model.codec": ("from_json", "to_json"),
    "model.extents": (
        "Bound",
        "Crossing",
        "Extent",
        "HashBucket",
        "Key",
        "KeyIsNull",
        "KeyRange",
        "KeyValues",
        "Whole",
    ),
    "model.plans": (
        "CHOSEN",
        "Partition",
        "PartitionPlan",
    ),
    "model.records": ("CommitRecord",),
    "model.tables": (
        "NotCopied",
        "Place",
        "TableRef",
    ),
    "engine.api": (
        "RunStatus",
        "control_ddl",
        "copy",
        "create",
        "committed_in_series",
        "find_loss",
        "plan",
        "resume",
        "status",
        "statuses",
        "verify",
    ),
    "figures.run_report": ("RunReport",),
    "engine.repair": ("Repair", "plan_repair", "repair_run"),
    "engine.reports": ("report",),
    "show.html_report": ("run_report_html",),
    "show.markdown_report": ("execution_markdown", "run_report_markdown"),
    "show.run_report": ("run_report_text",),
    "engine.batch_plan": ("BatchPlan", "TablePlan", "plan_all"),
    "engine.batch": ("copy_all", "copy_tables", "resume_all"),
    "engine.claimed_tables": ("watch_claims",),
    "engine.found_tables": (
        "FoundColumn",
        "FoundTable",
        "FoundTables",
        "describe_tables",
        "find_tables",
    ),
    "engine.giving_up": ("forget_lost", "give_up"),
    "engine.listing": ("RunEntry", "batch_runs", "runs"),
    "engine.table_requests": ("TableRequest",),
    "engine.tables_file": ("batch_of_file",),
    "engine.work": ("work",),
    "engine.work_on": ("WorkResult", "WorkerResult", "work_on"),
    "engine.watermarks": (
        "reset_watermark",
        "set_watermark",
        "watermark_history",
        "watermarks",
    ),
    "model.nights": ("NightStatus", "Watermark"),
    "engine.connections": (
        "check_request",
        "check_source",
        "holds_secret",
        "place_of",
        "with_parameters",
    ),
    "engine.snapshot_holder": (
        "hold",
        "release",
        "require_snapshot",
    ),
    "engine.source_writes": ("SourceWrites", "source_writes"),
    "show.log": (
        "failure_text",
        "narrate",
        "report_text",
        "whole_report_text",
        "combined_report",
    ),
    "show.text": ("not_copied_lines",),
    "spec.terms": ("as_arguments",),
    "spec.batch_spec": ("BatchSpec",),
    "spec.copy_spec": ("CopySpec", "value_mistakes"),
    "spec.modes": ("MODES", "Ending", "Entry", "ModeName", "mode_of"),
    "spec.read_spec": ("ReadSpec",),
    "spec.references": ("is_reference",),
    "spec.strategies": ("STRATEGIES", "StrategyName"),
    "tuning.measurements": ("Tuning",),
    "tuning.sweep": ("tune",),
    "verification.result": ("Verification",),
    "watching.metrics_file": ("write_metrics",),
    "watching.spans": ("traced",),
    "workers.degree": ("stream_count",),
}


def __getattr__(name: str) -> Any:
    # Import a name on first use: workers import this package too, and need none of these names.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as above

    home = next((module for module, names in _HOMES.items() if name in names), "errors")
    return getattr(import_module(f"{__name__}.{home}"), name)
