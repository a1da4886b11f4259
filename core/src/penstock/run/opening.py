"""The source is opened while the target is: over a network that takes as long as some queries."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.backends.api.source import SourceCatalog

# Seconds that whoever still connects may take to leave.
LEAVE_SECONDS = 2.0


class Opening:
    """Opens the source on a thread of its own. What it fails with shows when it is asked for, so
    an error of the target always comes first.

    Parameters:
        ahead: begin now; else when it is asked for.
    """

    def __init__(self, open_source: Callable[[], SourceCatalog], *, ahead: bool) -> None:
        self._open_source = open_source
        self._lock = threading.Lock()
        self._wanted = True
        self._opened: SourceCatalog | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if ahead:
            self._thread = threading.Thread(target=self._open, daemon=True)
            self._thread.start()

    def _open(self) -> None:
        try:
            opened = self._open_source()
        except BaseException as error:
            self._error = error
            return
        with self._lock:
            if self._wanted:
                self._opened = opened
                return
        opened.close()

    def take(self) -> SourceCatalog:
        """The source, which is the caller's from now on.

        Raises:
            PenstockError: it could not be opened.
        """
        if self._thread is None:
            return self._open_source()
        self._thread.join()
        if self._error is not None:
            raise self._error
        opened, self._opened = self._opened, None
        assert opened is not None, "taken before"
        return opened

    def close(self) -> None:
        """Close what nobody has taken."""
        if self._thread is not None and self._error is None:
            with self._lock:
                self._wanted = False
                opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()
            self._thread.join(LEAVE_SECONDS)
