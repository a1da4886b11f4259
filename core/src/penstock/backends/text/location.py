"""URLs of text files: their locations, and the format of their texts.

URLs are as for Parquet files, with additional parameters: ``format``, ``header``, ``delimiter`` and
``types``. Format and compression default to the suffixes of the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, unquote

from penstock.backends.parquet import location as files
from penstock.backends.parquet.location import FilesLocation
from penstock.errors import UsageError

CSV, JSON_LINES = "csv", "jsonl"
TEXT = "text"
"""The value of ``types`` for which no types are inferred."""
INFERRED = "inferred"
"""The value of ``types`` for which they are inferred even if a table gives them."""
COMPRESSIONS = {"gz": "gzip", "zst": "zstd"}
_FORMATS = {"csv": CSV, "tsv": CSV, "jsonl": JSON_LINES, "ndjson": JSON_LINES}
_NAME = re.compile(
    r"(?P<stem>.*)\.(?P<format>csv|tsv|jsonl|ndjson)(\.(?P<compressed>gz|zst|bz2|xz|zip|lz4))?",
    re.IGNORECASE | re.DOTALL,
)
_NEXT = re.compile(r",(?=[A-Za-z][A-Za-z0-9+.-]*://)")
SCHEMA = "schema"
"""A parameter that no user sets: see `given`."""
_OWN = ("format", "header", "delimiter", "types", SCHEMA)
_DELIMITERS = {"tab": "\t", "\\t": "\t"}


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The format of the texts."""

    format: str = CSV
    """`CSV` or `JSON_LINES`."""
    extension: str = "csv"
    """The suffix of written files, including the compression's."""
    delimiter: str = ","
    header: bool = True
    types: str = ""
    """Empty: those of the table, else inferred from all values. `TEXT`: all columns are texts.
    `INFERRED`: inferred in any case."""
    schema: str = ""
    """The columns with their types, if they are given; see `schema_to_text`. Values are then
    checked as they are read."""

    @property
    def noun(self) -> str:
        """The format's name in messages."""
        return "CSV" if self.format == CSV else "JSON lines"

    @property
    def compression(self) -> str:
        """The compression of written files: ``gzip``, ``zstd`` or empty."""
        return COMPRESSIONS.get(self.extension.partition(".")[2], "")


@dataclass(frozen=True, slots=True)
class TextLocation:
    """The location of text files, and their format."""

    files: FilesLocation
    options: TextOptions
    url: str
    """The URL it was parsed from."""

    def __str__(self) -> str:
        return str(self.files)

    @property
    def folder(self) -> FilesLocation | None:
        """The folder in which each partition becomes a file; None if all become a single file."""
        (pattern,) = self.files.patterns
        head, _, name = pattern.rpartition("/")
        stem = _stem(name)
        if stem == "*":
            return replace(self.files, patterns=(head,))
        return None if stem else self.files


def compression_of(path: str) -> str:
    """Return the compression of a file by its name: ``gzip``, ``zstd`` or empty."""
    return COMPRESSIONS.get(path.rpartition(".")[2].lower(), "")


def is_text_file(path: str, format_: str) -> bool:
    """Whether a file's name has a format's suffix."""
    match = _NAME.fullmatch(path.rpartition("/")[2])
    return match is not None and _FORMATS[match["format"].lower()] == format_


def _stem(name: str) -> str:
    """Return a file's name without its suffixes; empty if they are not a text file's."""
    match = _NAME.fullmatch(name)
    return "" if match is None else match["stem"]


def parse(url: str, flag: str) -> TextLocation:
    """Read a URL, or several that commas separate.

    Raises:
        UsageError: the URL is malformed; the message shows no secret.
    """
    plain, parameters = _split_parameters(url, flag)
    location = files.parse(plain, flag, any_format=True)
    return TextLocation(location, _options(location, parameters, flag), url)


def _split_parameters(url: str, flag: str) -> tuple[str, dict[str, str]]:
    """Separate the parameters that only text files have from the rest of a URL."""
    values: dict[str, str] = {}
    plain = []
    for one in _NEXT.split(url):
        location, _, parameters = one.partition("?")
        rest_pairs = []
        for pair in filter(None, parameters.split("&")):
            name, _, value = pair.partition("=")
            if name not in _OWN:
                rest_pairs.append(pair)
                continue
            ((_, value),) = parse_qsl(pair, keep_blank_values=True)
            if values.setdefault(name, value) != value:
                raise UsageError(
                    f"{flag}: URL parameter {name!r}: expected one value for the whole list, "
                    "found two"
                )
        plain.append(location + ("?" + "&".join(rest_pairs) if rest_pairs else ""))
    return ",".join(plain), values


def _options(location: FilesLocation, values: Mapping[str, str], flag: str) -> TextOptions:
    extensions = []
    for pattern in location.patterns:
        name = unquote(pattern.rpartition("/")[2])
        match = _NAME.fullmatch(name)
        extensions.append(name[len(match["stem"]) + 1 :].lower() if match else "")
    extension = values.get("format", "").lower() or extensions[0]
    match = _NAME.fullmatch(f".{extension}")
    if match is None:
        raise UsageError(
            f"{flag}: format: expected csv, tsv, jsonl or ndjson, followed by .gz or .zst for "
            f"compressed files; found {extension or 'none'!r}"
        )
    kind = _FORMATS[match["format"]]
    for other in filter(None, extensions):
        if (compressed := other.partition(".")[2]) and compressed not in COMPRESSIONS:
            raise UsageError(
                f"{flag}: expected uncompressed files, or names that end in .gz or .zst; found "
                f".{compressed}"
            )
        if "format" not in values and _FORMATS[other.partition(".")[0]] != kind:
            raise UsageError(
                f"{flag}: expected files of one format, found .{extension} and .{other}"
            )
    if kind != CSV and (unknown := sorted({"header", "delimiter"} & values.keys())):
        raise UsageError(
            f"{flag}: URL parameter {unknown[0]!r} applies to CSV only, found JSON lines"
        )
    delimiter = values.get("delimiter", "\t" if match["format"] == "tsv" else ",")
    delimiter = _DELIMITERS.get(delimiter.lower(), delimiter)
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        raise UsageError(
            f"{flag}: delimiter: expected tab or one ASCII character other than a quote or line "
            f"break, found {delimiter!r}"
        )
    header = values.get("header", "true").lower()
    if header not in ("true", "false"):
        raise UsageError(f"{flag}: header: expected true or false, found {header!r}")
    types = values.get("types", "").lower()
    if types not in ("", TEXT, INFERRED):
        raise UsageError(
            f"{flag}: types: expected 'text', which reads all columns as texts, 'inferred', which "
            "infers types from all values, or nothing, which takes the types of an existing table "
            f"if it can; found {types!r}"
        )
    given = values.get(SCHEMA, "")
    return TextOptions(kind, extension, delimiter, header == "true", types, given)


def resolve(url: str, environ: Mapping[str, str], flag: str) -> str:
    """Check a URL, and add settings and secrets from the environment; see `Backend.resolve`.

    Args:
        url: the URL as the user wrote it.
        environ: the environment variables.
        flag: the option that it comes from, for error messages.
    """
    location = parse(url, flag)
    plain, parameters = _split_parameters(url, flag)
    if SCHEMA in parameters:
        raise UsageError(f"{flag}: unknown URL parameter {SCHEMA!r}")
    resolved = files.resolve(plain, environ, flag, any_format=True)
    if flag == "--target":
        check_target(location, flag)
    pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return resolved + (("&" if "?" in resolved else "?") + pairs if pairs else "")


def given(url: str, schema: str) -> str:
    """Return a resolved URL of files whose columns have given types.

    Args:
        url: the URL.
        schema: the columns, in the order of the files; see `schema_to_text`.
    """
    return f"{url}{'&' if '?' in _NEXT.split(url)[-1] else '?'}{SCHEMA}={quote(schema, safe='')}"


def check_target(location: TextLocation, flag: str) -> None:
    """Check the location of a target.

    Raises:
        UsageError: the location is neither one file nor a folder; or it is one file in a bucket.
    """
    if len(location.files.patterns) > 1:
        raise UsageError(f"{flag}: {location}: expected one file or folder, found a list")
    folder = location.folder
    (folder or location.files).path  # noqa: B018 - raises where it is a pattern
    if location.options.types:
        raise UsageError(f"{flag}: URL parameter 'types' applies to sources only")
    if folder is None and location.files.scheme == files.S3:
        extension = location.options.extension
        parent = str(location.files).rpartition("/")[0]
        raise UsageError(
            f"{flag}: expected a folder in a bucket, in which each partition becomes a file, such "
            f"as {parent}/*.{extension}; found {location}, which names one file"
        )


def identity(location: TextLocation) -> str:
    """Return the identity of the file or folder, equal only for the same one."""
    location_ = location.files
    pattern = location_.patterns[0]
    if _stem(pattern.rpartition("/")[2]) and ("*" in pattern or "[" in pattern):
        location_ = replace(location_, patterns=(pattern.rpartition("/")[0],))
    return files.identity(location_)
