"""A claimed run that waits to be continued: others may not empty or replace its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import (
    BatchSpec,
    CopySpec,
    PenstockError,
    RunFailedTransiently,
    TargetBusy,
    UsageError,
    copy_all,
    create,
    give_up,
    resume,
    runs,
    status,
    watch_claims,
)
from penstock.events import BatchFinished, Finished, Warned

from ...cli import run_cli

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TABLE = "CREATE TABLE t (id int, note text)"
REFUSE = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''not now'' USING ERRCODE = ''40001''; END';
    CREATE TRIGGER refuse AFTER INSERT ON t FOR EACH ROW
        WHEN (NEW.id = 290) EXECUTE FUNCTION refuse()
"""
CUT: dict[str, Any] = {
    "strategy": "range",
    "key": "id",
    "partitions": 3,
    "attempts": 1,
    "on_error": "continue",
}
CLAIM = "the nightly job"
LOADED = 200


@pytest.fixture
def half(pair: Pair) -> Pair:
    """Return a pair whose table was loaded in part by run `half`, which may go on."""
    pair.both(TABLE)
    pair.source.run("INSERT INTO t SELECT i, 'n' FROM generate_series(1, 300) AS i")
    pair.target.run(REFUSE)
    load(pair)
    return pair


def load(pair: Pair, **options: Any) -> None:
    with pytest.raises(PenstockError, match="not now"):
        pair.events(**{"run_id": "half", "claim": CLAIM, **CUT, **options})
    assert pair.target.count() == LOADED
    pair.target.run("DROP TRIGGER refuse ON t")


def ends(pair: Pair) -> dict[str, Any]:
    return {"source": pair.source.url, "target": pair.target.url}


def check_goes_on(pair: Pair) -> None:
    (*_, last) = resume("half", **ends(pair), on_snapshot_lost="accept")
    assert isinstance(last, Finished)
    assert last.status == "done"
    assert pair.target.count() == 300


@pytest.mark.parametrize("mode", ["truncate", "recreate", "swap"])
def test_a_run_that_would_remove_the_rows_names_the_other(half: Pair, mode: str) -> None:
    with pytest.raises(TargetBusy) as caught:
        half.events(mode=mode, run_id="second")
    for part in ("run half", "200 rows", CLAIM, "penstock give-up half", "1d", "ago"):
        assert part in caught.value.message
    assert half.target.count() == LOADED
    check_goes_on(half)
    # A run that is done is not in the way, and the second run may be repeated.
    half.events(mode=mode, run_id="second")
    assert half.target.count() == 300


@pytest.mark.parametrize("options", [{"mode": "append"}, {"mode": "replace", "key": "id"}])
def test_runs_that_remove_no_table_are_not_concerned(half: Pair, options: dict[str, Any]) -> None:
    half.events(**options)


def test_a_run_that_is_given_up_is_not_in_the_way(half: Pair) -> None:
    give_up("half", target=half.target.url)
    assert status("half", target=half.target.url).run.status == "given-up"
    (entry,) = runs(target=half.target.url, status=["given-up"])
    assert entry.run_id == "half"
    # Until another run does so, it may still be resumed, and then claims its table again.
    half.events(mode="truncate")
    with pytest.raises(PenstockError, match="start a new run"):
        check_goes_on(half)


def test_a_given_up_run_that_is_resumed_is_done(half: Pair) -> None:
    give_up("half", target=half.target.url)
    check_goes_on(half)
    give_up("half", target=half.target.url)  # changes nothing
    assert status("half", target=half.target.url).run.status == "done"


def test_an_old_run_is_not_in_the_way(half: Pair) -> None:
    half.events(mode="truncate", stale_after="0s")
    assert half.target.count() == 300


def test_an_owner_that_starts_again_is_not_in_its_own_way(half: Pair) -> None:
    half.events(mode="truncate", claim=CLAIM)
    assert half.target.count() == 300


def test_a_run_without_a_claim_is_not_in_the_way(pair: Pair) -> None:
    pair.both(TABLE)
    pair.source.run("INSERT INTO t SELECT i, 'n' FROM generate_series(1, 300) AS i")
    pair.target.run(REFUSE)
    load(pair, claim=None)
    pair.events(mode="truncate")
    assert pair.target.count() == 300


def test_a_run_that_has_not_begun_is_not_in_the_way(pair: Pair) -> None:
    pair.both(TABLE)
    create(pair.spec(run_id="half", claim=CLAIM))
    pair.events(mode="truncate")


def test_an_owner_that_is_known_to_have_ended_is_not_waited_for(half: Pair) -> None:
    watch_claims("the nightly", lambda claim: claim == CLAIM)
    try:
        half.events(mode="truncate")
    finally:
        watch_claims("the nightly", lambda _: False)
    assert status("half", target=half.target.url).run.status == "given-up"


def test_only_the_claimed_table_of_a_batch_is_left_out(half: Pair) -> None:
    half.both("CREATE TABLE u (LIKE t)", "CREATE TABLE v (LIKE t)")
    batch = BatchSpec(
        **ends(half), tables=("public.*",), run_id="b", degree=1, defaults={"mode": "truncate"}
    )
    seen: list[Any] = []
    with pytest.raises(RunFailedTransiently, match="1 of 3 tables are not done"):
        seen.extend(copy_all(batch))
    assert any("run half" in event.message for event in seen if isinstance(event, Warned))
    assert half.target.count() == LOADED
    check_goes_on(half)
    (*_, last) = copy_all(batch)
    assert isinstance(last, BatchFinished)
    assert last.status == "done"


def test_a_mapped_run_checks_when_it_begins(half: Pair) -> None:
    """Its tasks plan first, and empty the table with the first partition."""
    create(CopySpec(**ends(half), table="public.t", mode="truncate", run_id="second", **CUT))
    with pytest.raises(TargetBusy, match="run half"):
        list(resume("second", **ends(half), only=["p0001"], finish=False))
    assert half.target.count() == LOADED


def test_the_command_line(half: Pair) -> None:
    command = [f"--source={half.source.url}", f"--target={half.target.url}", "--table=public.t"]
    refused = run_cli("copy", *command, "--mode=truncate", "--run-id=second")
    assert refused.returncode == 75
    assert "penstock give-up half" in refused.stderr
    given_up = run_cli("give-up", "half", f"--target={half.target.url}")
    assert given_up.returncode == 0, given_up.stderr
    again = run_cli("copy", *command, "--mode=truncate", "--run-id=second")
    assert again.returncode == 0, again.stderr
    unknown = run_cli("give-up", "nothing", f"--target={half.target.url}")
    assert unknown.returncode == 64
    with pytest.raises(UsageError, match="is not in the target"):
        give_up("nothing", target=half.target.url)
