"""The bytes of a text file for parsers: decompressed, in UTF-8, with a final line break."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.location import compression_of

PIECE = 1 << 20
_BOM = b"\xef\xbb\xbf"
_OTHERS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def unpacked(handle: pa.NativeFile, path: str) -> pa.NativeFile:
    """Decompress a file.

    Args:
        handle: the open file.
        path: its suffix gives the compression.
    """
    compression = compression_of(path)
    return pa.CompressedInputStream(handle, compression) if compression else handle


class TextStream(io.RawIOBase):
    """A stream without a byte order mark, and with a line break after the last line.

    Args:
        stream: the decompressed bytes of a file.
        look: called with each piece that is read.
    """

    def __init__(self, stream: pa.NativeFile, look: Callable[[bytes], None] | None = None) -> None:
        super().__init__()
        self._stream = stream
        self._look = look
        self._has_begun = self._ended = False
        self._last = self._held = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = PIECE) -> bytes:
        """Read some bytes.

        Args:
            size: at least 2.

        Raises:
            Broken: the file has another encoding.
        """
        piece = b"" if self._ended else self._filled(size)
        if not self._has_begun and piece:
            self._has_begun = True
            for mark, name in _OTHERS:
                if piece.startswith(mark):
                    raise Broken(f"expected UTF-8, found {name}; convert it first, as with iconv")
            piece = piece.removeprefix(_BOM)
        if self._look is not None:
            self._look(piece)
        return piece

    def _filled(self, size: int) -> bytes:
        """Return about this many bytes unless the file ends.

        Parsers expect whole lines in the first piece. No piece ends between a carriage return and
        a line feed: Arrow skips a line feed at the beginning of such a piece, even if it is part
        of a quoted value.
        """
        pieces: list[bytes] = [self._held] * bool(self._held)
        remaining = size - 1 - len(self._held)  # a line break may follow
        self._held = b""
        while remaining > 0:
            piece: bytes = self._stream.read(remaining)
            if not piece:
                self._ended = True
                if self._last not in (b"", b"\n"):
                    pieces.append(b"\n")
                break
            self._last = piece[-1:]
            remaining -= len(piece)
            pieces.append(piece)
        content = b"".join(pieces)
        if not self._ended and len(content) > 1 and content.endswith(b"\r"):
            self._held, content = content[-1:], content[:-1]
        return content

    def readinto(self, buffer: Any) -> int:
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)
