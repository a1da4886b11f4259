"""URLs of Parquet files: locations and settings.

``file:///folder/*.parquet`` and ``s3://bucket/folder/*.parquet``; several, separated by commas.
Paths of files are percent-encoded; ``*``, ``**`` and ``[...]`` are patterns unless they are
encoded, and ``?`` begins the parameters, which apply to the whole list. Names in a bucket are not
encoded, as in other tools for S3: there ``%20`` does not mean a blank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from penstock.errors import UsageError
from penstock.model.tables import Place

FILE, S3 = "file", "s3"
_NEXT = re.compile(r",(?=[A-Za-z][A-Za-z0-9+.-]*://)")
_NAME = re.compile(r"[a-z]+(_[a-z]+)*")
_WILD = re.compile(r"[*\[]")
_OTHER_FORMAT = re.compile(
    r"\.(csv|tsv|txt|json|jsonl|ndjson|xml|avro|orc|arrow|feather|ipc|xlsx?|ods|sqlite3?)"
    r"(\.(gz|bz2|xz|zip|zst|lz4|snappy))?$",
    re.IGNORECASE,
)
_TEXT = ("csv", "tsv", "jsonl", "ndjson")
_PARQUET = (".parquet", ".parq", ".pq")
_SECRET = ("secret_access_key", "session_token")
# https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html
_VARIABLES = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_CREDENTIALS = {
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
}


@dataclass(frozen=True, slots=True)
class FilesLocation:
    """The location that a URL refers to. It may contain secrets, which its `repr` does not show."""

    scheme: str
    """``file`` or ``s3``."""
    patterns: tuple[str, ...]
    """Paths in the file system's form (``/folder/file``, ``bucket/key``), percent-encoded."""
    endpoint: str = ""
    """The URL of the server; empty for AWS."""
    region: str = ""
    path_style: bool = False
    """Whether the bucket is part of the path instead of the server's name."""
    profile: str = ""
    """A profile in the AWS configuration files."""
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    @property
    def path(self) -> str:
        """The location's only path, as the file system names it, without a trailing ``/``.

        Raises:
            UsageError: the location has several paths, or its path is a pattern.
        """
        if len(self.patterns) > 1 or _WILD.search(self.patterns[0]):
            raise UsageError(
                f"{self}: expected one folder, without * or [; found "
                + ("a list" if len(self.patterns) > 1 else "a pattern")
            )
        return unquote(self.patterns[0]).rstrip("/") or "/"

    @property
    def bucket(self) -> str:
        """The bucket of the first path."""
        return self.patterns[0].partition("/")[0] if self.scheme == S3 else ""

    @property
    def key(self) -> str:
        """The path within its bucket, without a trailing ``/``."""
        return self.path.partition("/")[2]

    def __str__(self) -> str:
        """Return the location as messages show it."""
        decoded = (p.replace("%25", "%") if self.scheme == S3 else p for p in self.patterns)
        return ",".join(f"{self.scheme}://{pattern}" for pattern in decoded)

    def url(self) -> str:
        """Return the complete URL of the location."""
        settings = {
            name: value for name in _PARAMETERS if (value := getattr(self, name)) not in {"", False}
        }
        if self.endpoint or self.path_style:
            settings["path_style"] = "true" if self.path_style else "false"
        pairs = [f"{name}={quote(str(value), safe=':/')}" for name, value in settings.items()]
        return str(self) + ("?" + "&".join(pairs) if pairs else "")


_PARAMETERS = tuple(
    item.name for item in fields(FilesLocation) if item.name not in {"scheme", "patterns"}
)


def parse(url: str, flag: str, *, any_format: bool = False) -> FilesLocation:
    """Parse a URL, or several separated by commas.

    Args:
        url: the URL.
        flag: the option that it comes from, for error messages.
        any_format: whether names of files may end like those of other formats.

    Raises:
        UsageError: the URL is malformed; the message shows no secret.
    """
    schemes: set[str] = set()
    patterns = []
    values: dict[str, str] = {}
    for one in _NEXT.split(url):
        location, _, parameters = one.partition("?")
        scheme, _, path = location.partition("://")
        schemes.add(scheme.lower())
        patterns.append(_pattern(scheme.lower(), path, flag))
        if not any_format:
            _check_format(f"{scheme}://{path}", flag)
        for name, value in parse_qsl(parameters, keep_blank_values=True):
            if values.setdefault(name, value) != value:
                raise UsageError(
                    f"{flag}: URL parameter {name!r}: expected one value for the whole list, "
                    "found two"
                )
    if len(schemes) > 1:
        raise UsageError(
            f"{flag}: expected one scheme for the whole list, found {' and '.join(sorted(schemes))}"
        )
    scheme = schemes.pop()
    allowed = _PARAMETERS if scheme == S3 else ()
    if unknown := sorted(values.keys() - set(allowed)):
        raise UsageError(
            f"{flag}: {scheme}:// has no URL parameter {', '.join(map(_shown, unknown))}; expected "
            + (
                f"one of {', '.join(allowed)}"
                if allowed
                else "none (? is not a pattern, unlike * and [0-9]; write %3F for a ? in a file:// "
                "URL)"
            )
        )
    style = values.pop("path_style", "").lower()
    if style not in {"", "true", "false"}:
        raise UsageError(f"{flag}: path_style: expected true or false, found another value")
    path_style = style == "true" if style else bool(values.get("endpoint"))
    _check_endpoint(values.get("endpoint", ""), flag)
    return FilesLocation(scheme, tuple(patterns), path_style=path_style, **values)


def _shown(name: str) -> str:
    """Return a parameter's name, unless it could be part of a secret cut off at a &."""
    return (
        repr(name) if _NAME.fullmatch(name) else "with an invalid name (write %26 for & in a value)"
    )


def _pattern(scheme: str, path: str, flag: str) -> str:
    # A secret may contain a /, and end the part before the path too early.
    if set("@:") & set(path.partition("/")[0]):
        raise UsageError(
            f"{flag}: {scheme}:// URLs have no user and password; expected {scheme}://"
            + ("bucket/path?access_key_id=...&secret_access_key=..." if scheme == S3 else "/path")
        )
    if scheme == S3:
        if not path.partition("/")[0]:
            raise UsageError(f"{flag}: expected s3://bucket/path, found no bucket")
        if _WILD.search(path.partition("/")[0]):
            raise UsageError(f"{flag}: expected the name of a bucket, found a pattern")
        return path.replace("%", "%25")
    if path.lower().endswith(".duckdb"):
        raise UsageError(
            f"{flag}: expected Parquet files or a folder of them, found a DuckDB database, whose "
            f"URL is duckdb:///{unquote(path)}"
        )
    if path.startswith("localhost/"):
        path = path.removeprefix("localhost")
    if not path.startswith("/"):
        raise UsageError(
            f"{flag}: expected file:///absolute/path, found no / after file://; write a relative "
            "path without file://, as ./path"
        )
    return path


def _check_format(url: str, flag: str) -> None:
    """Check the file format in a URL.

    Raises:
        UsageError: the URL ends with the name of a file that is not Parquet.
    """
    match = _OTHER_FORMAT.search(url.rpartition("/")[2])
    if match is None:
        return
    kind, plain = match[1].upper(), url.removesuffix(match[0])
    if match[1].lower() in _TEXT:
        raise UsageError(f"{flag}: expected files of one format, found Parquet files and {url}")
    instead = f"a folder for Parquet files, such as {plain}/"
    if "source" in flag:
        instead = f"Parquet files, such as {plain}.parquet (DuckDB can convert {kind} files)"
    raise UsageError(
        f"{flag}: Penstock does not support {kind} files; expected {instead}, or text files "
        f"(?format=csv or ?format=jsonl after the name); found {url} (end a folder's name with /)"
    )


def check_folder(location: FilesLocation, flag: str) -> None:
    """Check the location of a target.

    Raises:
        UsageError: the location ends like the name of a single file.
    """
    (first, *more_patterns) = location.patterns
    if first.lower().endswith(_PARQUET) and not more_patterns and not _WILD.search(first):
        folder = str(location).rpartition(".")[0]
        raise UsageError(
            f"{flag}: expected a folder, in which each partition becomes a file, such as "
            f"{folder}/; found {location}, which names one file (end a folder's name with /)"
        )


def _check_endpoint(endpoint: str, flag: str) -> None:
    """Check an endpoint.

    Raises:
        UsageError: the endpoint is not the URL of a server.
    """
    if not endpoint:
        return
    try:
        parts = urlsplit(endpoint)
        parts.port  # noqa: B018 - raises where it is no number
        plain = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    except ValueError:
        plain = ""
    if not plain or parts.query or parts.path.strip("/"):
        raise UsageError(
            f"{flag}: S3 endpoint: expected http://host:port or https://host, found another form"
        )


def resolve(url: str, environ: Mapping[str, str], flag: str, *, any_format: bool = False) -> str:
    """Check a URL, and add settings and secrets from the environment to it.

    Credentials in files, and those of a machine or container, are left to the SDK in the processes
    that read the rows. A profile in the URL takes precedence over credentials in the environment.

    Args:
        url: the URL as the user wrote it.
        environ: the environment variables.
        flag: the option that it comes from, for error messages.
        any_format: as for `parse`.

    Returns:
        The URL with everything that a worker needs.

    Raises:
        UsageError: the URL is malformed, or half of the credentials is missing; the message shows
            no secret.
    """
    location = parse(url, flag, any_format=any_format)
    if location.scheme == FILE:
        return location.url()
    settings = {name: getattr(location, name) for name in _PARAMETERS}
    for name, variables in _VARIABLES.items():
        for variable in variables:
            settings[name] = settings[name] or environ.get(variable, "")
    if settings["endpoint"] and not location.endpoint:
        _check_endpoint(settings["endpoint"], flag)
        # The URL may have specified it without an endpoint.
        settings["path_style"] = location.path_style or "path_style=" not in url
    if not location.profile and not location.secret_access_key:
        for name, variable in _CREDENTIALS.items():
            settings[name] = settings[name] or environ.get(variable, "")
    if bool(settings["access_key_id"]) != bool(settings["secret_access_key"]):
        present = "access_key_id" if settings["access_key_id"] else "secret_access_key"
        raise UsageError(
            f"{flag}: S3 credentials: expected access_key_id and secret_access_key, in the URL or "
            f"as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; found {present} only"
        )
    return FilesLocation(S3, location.patterns, **settings).url()


def secrets(url: str) -> tuple[str, ...]:
    """Return the passwords in a URL returned by `resolve`."""
    return secrets_of(parse(url, "connection"))


def secrets_of(location: FilesLocation) -> tuple[str, ...]:
    """Return the secrets of a location."""
    return tuple(getattr(location, name) for name in _SECRET if getattr(location, name))


def place_of(url: str) -> Place:
    """Return the bucket, and the path up to a pattern; for a list, those of the first."""
    return place_at(parse(url, "connection"))


def place_at(location: FilesLocation) -> Place:
    """Return a location's place; see `place_of`."""
    plain = _WILD.split(location.patterns[0])[0]
    if plain != location.patterns[0]:
        plain = plain.rpartition("/")[0]
    path = unquote(plain)
    if location.scheme == FILE:
        return Place(FILE, "", None, path)
    bucket, _, key = path.partition("/")
    return Place(S3, bucket, None, key)


def identity(location: FilesLocation) -> str:
    """Return the identity of a location's folder, equal only for the same folder."""
    plain = _WILD.split(location.patterns[0])[0]
    if plain != location.patterns[0] or plain.lower().endswith(_PARQUET):
        plain = plain.rpartition("/")[0]
    return f"{location.endpoint}{location.scheme}://{unquote(plain).rstrip('/')}"
