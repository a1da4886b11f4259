"""Keys of the target's rows after a night's merge, and keys deleted from the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.optional.nights import Bucket, KeySelection
from penstock.backends.sql.dialect import NEVER
from penstock.backends.sql.loads.night import deleted_keys_table
from penstock.backends.sql.rows.checksums import as_loaded, canonical_texts, read_digests, row_text
from penstock.backends.sql.rows.conditions import condition
from penstock.backends.sql.session import Row, Session
from penstock.model.extents import Whole
from penstock.spec.copy_spec import CopySpec

DIGESTS = "penstock_digests"
# Rows per INSERT.
MOST = 5_000
SUBJECT = "deleted keys"


class TargetKeys:
    """The keys of the target's rows that a run's condition selects.

    Rows marked as deleted are left out.
    """

    def __init__(self, session: Session, run: RunRow) -> None:
        spec = CopySpec.from_stored(run.spec, "", "")
        self._session = session
        self._dialect = dialect = session.dialect
        self._key = key = run.plan.load.conflict_columns
        self._listed = ", ".join(map(dialect.ident, key))
        self._match = " AND ".join(f"t.{name} = s.{name}" for name in map(dialect.ident, key))
        self._table = session.table(spec.target_ref)
        self._stage = session.table(run.plan.load.table)
        self._keys_table = session.table(deleted_keys_table(run.plan.load.table))
        tests = [condition(dialect, spec.where, Whole())]
        if spec.deletion.column:
            tests.append(f"{dialect.ident(spec.deletion.column)} IS NULL")
        self._selected = " AND ".join(tests)
        by_target = {pair.target: pair for pair in run.plan.pairs}
        pairs = as_loaded([by_target[name] for name in key])
        self._texts = canonical_texts(session, self._table, pairs)
        self._digest = dialect.digest(row_text(dialect, list(self._texts.values())))

    def _key_rows(self, selected: str) -> str:
        return f"(SELECT {self._listed} FROM {self._table} WHERE {selected}) AS t"

    @cached_property
    def _rows(self) -> str:
        """Return the existing rows, as an item of FROM.

        Rows whose keys the stage spells differently are left out: after the merge they have the
        stage's spelling.
        """
        if not self.respelled:
            return self._key_rows(self._selected)
        listed = ", ".join(map(str, self.respelled))
        return self._key_rows(f"{self._selected} AND {self._digest} NOT IN ({listed})")

    @cached_property
    def respelled(self) -> Sequence[int]:
        """The digests of existing keys that the stage spells differently."""
        respelled = self._dialect.respelled_condition(self._key)
        if respelled == NEVER:
            return ()
        existing = (
            f"(SELECT {self._listed}, {self._digest} AS digest FROM {self._table}"
            f" WHERE {self._selected}) AS t"
        )
        staged = f"(SELECT {self._listed} FROM {self._stage}) AS s"
        rows = self._session.fetch(
            f"SELECT t.digest FROM {staged} JOIN {existing} ON {self._match} WHERE {respelled}",
            SUBJECT,
        )
        return [int(digest) for (digest,) in rows]

    @property
    def _new(self) -> str:
        """The rows that the stage adds, as an item of FROM."""
        return (
            f"(SELECT {self._listed} FROM {self._stage} AS s"
            f" WHERE NOT EXISTS (SELECT 1 FROM {self._rows} WHERE {self._match})) AS n"
        )

    def count_after_merge(self) -> int:
        total = 0
        for rows in (self._rows, self._new):
            ((count,),) = self._session.fetch(f"SELECT count(*) FROM {rows}", SUBJECT)
            total += int(count)
        return total

    def buckets_after_merge(self, bits: int) -> dict[int, Bucket]:
        """See `FindsDeletedRows`."""
        counts: Counter[int] = Counter()
        totals: Counter[int] = Counter()
        for rows in (self._rows, self._new):
            digests = f"(SELECT {self._digest} AS digest FROM {rows}) AS digests"
            bucket = f"SELECT {self._bucket('digest', bits)} AS bucket, digest FROM {digests}"
            for number, count, total in self._session.fetch(
                f"SELECT bucket, count(*), {self._dialect.total('digest')}"
                f" FROM ({bucket}) AS buckets GROUP BY bucket",
                SUBJECT,
            ):
                counts[int(number)] += int(count)
                totals[int(number)] += int(total)
        return {number: Bucket(count, totals[number]) for number, count in counts.items()}

    def _bucket(self, digest: str, bits: int) -> str:
        return f"{digest} % {2**bits}"

    def keys(self, selection: KeySelection | None) -> Iterator[Row]:
        """See `FindsDeletedRows.target_keys`."""
        among = "1 = 1"
        if selection is not None:
            numbers = ", ".join(map(str, selection.buckets))
            among = f"{self._bucket(self._digest, selection.bits)} IN ({numbers})"
        return read_digests(self._session, self._rows, among, self._texts, self._key, ())

    def keep(self, digests: Sequence[int]) -> int:
        """Store the keys with these digests in the table of deleted keys; return their number."""
        # A difference of sums that is not a digest: the target lacks a key that it should have.
        valid_digests = sorted({each for each in digests if 0 <= each < 2**60})
        run = self._session.run
        # It lasts as long as the session: dropping it would end the transaction in some databases.
        run(f"CREATE TEMPORARY TABLE IF NOT EXISTS {DIGESTS} (digest BIGINT PRIMARY KEY)")
        run(f"DELETE FROM {DIGESTS}")
        for start in range(0, len(valid_digests), MOST):
            values = ", ".join(f"({each})" for each in valid_digests[start : start + MOST])
            run(f"INSERT INTO {DIGESTS} VALUES {values}")
        keys = f"(SELECT {self._listed}, {self._digest} AS digest FROM {self._rows}) AS k"
        listed = ", ".join(f"k.{self._dialect.ident(name)}" for name in self._key)
        return run(
            f"INSERT INTO {self._keys_table} ({self._listed}) SELECT {listed} FROM {keys}"
            f" JOIN {DIGESTS} AS d ON d.digest = k.digest"
        )
