"""Dagster for tests: a real one, with web server, daemon and code server.

Nothing here imports Dagster, which runs in its own processes.
"""

from penstock_testkit.dagster.graphql import GraphQL, GraphQLError
from penstock_testkit.dagster.runs import Backfill, Event, Materialization, Run
from penstock_testkit.dagster.stack import DagsterStack, PartitionStatuses

__all__ = [
    "Backfill",
    "DagsterStack",
    "Event",
    "GraphQL",
    "GraphQLError",
    "Materialization",
    "PartitionStatuses",
    "Run",
]
