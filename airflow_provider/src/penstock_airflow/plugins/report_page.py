"""A plugin that serves a run's report as a page of Airflow's API server (Airflow 3).

The task that ends a run stores its report as an XCom, because the API server may not be able to
reach the target.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from penstock_airflow.links.run import REPORT_KEY, REPORT_PREFIX, task_url
from penstock_airflow.sdk import AIRFLOW_3

# The author of a DAG may store anything as an XCom. The page runs no script, fetches nothing, and
# does not have the user's session.
_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


async def _serve(scope: Any, receive: Any, send: Any) -> None:
    await _app()(scope, receive, send)


@cache
def _app() -> Any:
    """Create the app on first use: schedulers and workers load the plugin, and serve nothing."""
    from airflow.api_fastapi.auth.managers.models.resource_details import (  # noqa: PLC0415
        DagAccessEntity,
    )
    from airflow.api_fastapi.core_api.security import requires_access_dag  # noqa: PLC0415
    from airflow.models.xcom import XComModel  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415
    from fastapi import Depends, FastAPI  # noqa: PLC0415
    from fastapi.responses import HTMLResponse, RedirectResponse  # noqa: PLC0415

    app = FastAPI(openapi_url=None)

    def page(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Any:
        """Return the report, or redirect to the task's log if there is none."""
        with create_session() as session:
            query = XComModel.get_many(
                run_id=run_id,
                key=REPORT_KEY,
                task_ids=task_id,
                dag_ids=dag_id,
                map_indexes=map_index,
                limit=1,
            )
            value = session.execute(query).scalars().first()
            text = None if value is None else XComModel.deserialize_value(value)
        if not isinstance(text, str):
            return RedirectResponse(task_url(dag_id, run_id, task_id), headers=_HEADERS)
        return HTMLResponse(text, headers=_HEADERS)

    # The same permission as for any XCom of the DAG; the browser sends the session's cookie.
    may_read = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))
    app.add_api_route("/report", page, dependencies=[may_read], response_class=HTMLResponse)
    return app


class PenstockPlugin(AirflowPlugin):  # type: ignore[misc, unused-ignore]
    """The plugin that adds the page to the API server."""

    name = "penstock"
    fastapi_apps = (
        [{"app": _serve, "url_prefix": REPORT_PREFIX, "name": "Penstock"}] if AIRFLOW_3 else []
    )
