"""The bytes of a text file as parsers take them: unpacked, in UTF-8, ended by a line break."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.location import compression_of

_BOM = b"\xef\xbb\xbf"
_OTHERS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def unpacked(handle: pa.NativeFile, path: str) -> pa.NativeFile:
    """
    Parameters:
        path: its end says how the file is compressed.
    """
    compression = compression_of(path)
    return pa.CompressedInputStream(handle, compression) if compression else handle


class TextStream(io.RawIOBase):
    """Without a byte order mark, and with a line break at the end of the last line.

    Parameters:
        stream: of a file's bytes, unpacked.
    """

    def __init__(self, stream: pa.NativeFile) -> None:
        super().__init__()
        self._stream = stream
        self._begun = self._ended = False
        self._last = b""
        self.quotes = 0
        """How many double quotes were read."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """
        Raises:
            Broken: another encoding.
        """
        if self._ended:
            return b""
        piece: bytes = self._stream.read(size if size >= 0 else None)
        if not self._begun and piece:
            self._begun = True
            for mark, name in _OTHERS:
                if piece.startswith(mark):
                    raise Broken(f"expected UTF-8, found {name}; convert it first, as with iconv")
            if piece.startswith(_BOM):
                piece = piece.removeprefix(_BOM) or self._stream.read(max(size, 1))
        if not piece:
            self._ended = True
            return b"\n" if self._last not in (b"", b"\n") else b""
        self.quotes += piece.count(b'"')
        self._last = piece[-1:]
        return piece

    def readinto(self, buffer: Any) -> int:
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)
