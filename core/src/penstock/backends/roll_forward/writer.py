"""The roll-forward way to commit: write a conditional record, then publish what it names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from penstock.backends.api.execution.attempt import Attempt, Write
from penstock.backends.api.execution.roll_forward import PieceStream, RollForwardHooks
from penstock.backends.api.worker import LoadResult, Wait
from penstock.backends.roll_forward.leases import Lease, Leases, lease_name
from penstock.backends.roll_forward.records import Records
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.roll_forward.series import Claim, claim_partition
from penstock.backends.roll_forward.states import Record, State, committed
from penstock.backends.shared.attempts.refusals import check_standing, started_over, taken
from penstock.errors import Diagnosis, PenstockError, TargetChanged, TransientError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

# How long a failed attempt tries to remove what it left; otherwise the run's last step does.
DISCARD_SECONDS = 2.0


class RollForwardWriter:
    """A `Writer` for a target that writes rows and commit record one after the other.

    Attempts do not wait: the first to commit wins, and the others find its record. If other
    executions take partitions, too, a lease shows which of them is being copied.
    """

    write: Write
    """The stream's own method, to save a call per block."""
    fileno: Callable[[], int]
    check: Callable[[], None]

    def __init__(self, spec: WorkerSpec, hooks: RollForwardHooks) -> None:
        self._spec = spec
        self.hooks = hooks
        self._stream: PieceStream | None = None
        self._may_discard = True
        self._leases = Leases()
        self._lease: Lease | None = None

    def switch_run(self, spec: WorkerSpec) -> None:
        if (spec.target, spec.control_schema) != (self._spec.target, self._spec.control_schema):
            self.hooks.disconnect()
        self._spec = spec

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        hooks, spec = self.hooks, self._spec
        self._attempt = this = Attempt(spec, partition, attempt)
        with wait.answering("target"):
            hooks.connect(spec)
            self._records = records = Records(hooks.documents(), hooks.store(), spec.run_id)
            current, version = records.read(spec.generation, partition.id)
            if current.is_committed:
                current = records.publish(spec.generation, partition.id, current, version)
                if current.is_committed:
                    return False
            if spec.leaves_taken:
                current, version = self._lease_partition(this)
                if current.is_committed:
                    return False
            try:
                standing = hooks.standing(this)
            except TargetChanged:
                # Another execution may have committed the partition since, and ended the run.
                if records.read(spec.generation, partition.id)[0].is_committed:
                    return False
                raise
            check_standing(this, standing)
            if current.state is State.CLOSED:
                raise started_over(this, standing.generation)
            if spec.series:
                documents = hooks.documents()
                mine = Claim(spec.series, spec.run_id, spec.generation)
                claim_partition(documents, Runs(documents, hooks.store()), mine, partition.id)
        self._before, self._version = current, version
        self._may_discard = True
        self._stream = stream = hooks.open_stream(this, wait)
        self.write, self.fileno, self.check = stream.write, stream.fileno, stream.check
        return True

    def _lease_partition(self, attempt: Attempt) -> tuple[Record, str]:
        """Take the partition's lease; return its record as of then, and the record's version.

        Raises:
            Taken: another attempt has it.
        """
        generation, partition_id = attempt.spec.generation, attempt.partition.id
        name = lease_name(attempt.spec.run_id, generation, partition_id)
        lease = self._leases.take(self.hooks.documents(), name, attempt.spec.grace)
        if lease is None:
            raise taken(attempt)
        self._lease = lease
        # Whoever had it before may have committed since.
        current, version = self._records.read(generation, partition_id)
        if current.is_committed:
            current = self._records.publish(generation, partition_id, current, version)
            self._release()
        return current, version

    def _release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def end(self, wait: Wait) -> LoadResult:
        assert self._stream is not None
        return LoadResult(self._stream.end(wait))

    def commit(self, result: LoadResult, bytes: int, wait: Wait) -> None:
        assert self._stream is not None
        generation, partition_id = self._spec.generation, self._attempt.partition.id
        record = committed(
            self._before,
            attempt=self._attempt.number,
            started_at=self._attempt.started_at,
            rows=result.rows,
            bytes=bytes,
            pieces=self._stream.pieces(),
            read_at=self._spec.read_at,
            spent=result.spent,
        )
        # From here on the record may exist, even without an answer, so nothing is discarded.
        self._may_discard = False
        with wait.answering("target"):
            is_written = self._records.write(generation, partition_id, record, self._version)
            current, version = self._records.read(generation, partition_id)
            # A request repeated because its answer was lost may find the record that it wrote
            # itself, and that has been published since.
            if not is_written and current.nonce != record.nonce:
                self._may_discard = True
                raise TransientError(
                    f"target: the commit record of partition {partition_id} was written by "
                    "another process since this attempt began",
                    Diagnosis(side="target"),
                )
            self._records.publish(generation, partition_id, current, version)
            self._release()
        self._close()

    def abandon(self) -> None:
        stream, hooks = self._close(), self.hooks
        pieces = stream.pieces() if stream is not None and self._may_discard else ()
        self._release()
        if not pieces:
            hooks.disconnect()
            return
        store = hooks.store()
        hooks.disconnect()

        def discard() -> None:
            with suppress(PenstockError):  # otherwise the run's last step does it
                store.discard(pieces)

        thread = threading.Thread(target=discard, daemon=True)
        thread.start()
        thread.join(DISCARD_SECONDS)

    def _close(self) -> PieceStream | None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        return stream
