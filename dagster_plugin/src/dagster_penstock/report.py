"""The end of a copy as a table in Markdown, for the run's page."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import Finished


def markdown(finished: Finished, keys: Mapping[str, str]) -> str:
    """What an execution did, and its slowest partitions.

    Parameters:
        keys: partition keys by the core's ids; without one, the id is shown.
    """
    seconds = max(finished.seconds, 0.001)
    lines = [
        f"**{finished.status}**: {finished.committed:,} of {finished.partitions:,} partitions "
        f"committed; {finished.rows:,} rows, {finished.bytes / 1e6:,.1f} MB in "
        f"{finished.seconds:,.1f} s by {finished.degree} streams: {finished.rows / seconds:,.0f} "
        f"rows/s, {finished.bytes / 1e6 / seconds:,.1f} MB/s; {finished.attempts:,} attempts",
    ]
    if finished.timings:
        lines += [
            "",
            "| slowest | rows | MB | seconds | rows/s | waiting for source | for target |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
    for timing in finished.timings:
        name = keys.get(timing.partition_id, timing.partition_id)
        took = max(timing.seconds, 0.001)
        lines.append(
            f"| {cell(name)} ({cell(timing.label)}) | {timing.rows:,} | {timing.bytes / 1e6:,.1f} "
            f"| {timing.seconds:,.2f} | {timing.rows / took:,.0f} | {timing.wait_source:,.2f} s "
            f"| {timing.wait_target:,.2f} s |"
        )
    return "\n".join(lines)


def cell(text: str) -> str:
    """A text that cannot end its cell."""
    return " ".join(text.replace("|", "\\|").split())
