"""Real S3 servers: moto's, which keeps everything in memory, and versitygw, over a folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import psutil

from penstock_testkit.servers import HOST, ServerError, free_port, kept

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

GATEWAY = "github.com/versity/versitygw/cmd/versitygw@latest"
REGION = "us-east-1"


class S3Server:
    """An S3 server on 127.0.0.1, moto's. A context manager. It never outlives this process.

    It accepts any credentials; see `S3Gateway` for one that checks them.
    """

    access_key_id = "penstock-test"
    secret_access_key = "penstock-test-secret"
    name: ClassVar[str] = "moto"

    def __init__(self) -> None:
        self.port = 0
        self._keeper: subprocess.Popen[bytes] | None = None
        self._home: Path | None = None
        self._client: S3Client | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def command(self, home: Path) -> list[str]:
        """Return the command that serves on `port`."""
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self.port)]

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which the SDKs, and Penstock, find the server."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": REGION,
        }

    def url(self, path: str, endpoint: str | None = None) -> str:
        """Return a Penstock URL with all necessary parameters.

        Args:
            path: ``bucket/key``.
            endpoint: the endpoint of a proxy in front of the server.
        """
        return (
            f"s3://{path}?endpoint={endpoint or self.endpoint}&region={REGION}"
            f"&access_key_id={self.access_key_id}&secret_access_key={self.secret_access_key}"
        )

    @property
    def client(self) -> S3Client:
        """Return a boto3 client for the server."""
        import boto3  # noqa: PLC0415 - only for S3 servers

        if self._client is None:
            self._client = boto3.client(
                "s3",
                endpoint_url=self.endpoint,
                aws_access_key_id=self.access_key_id,
                aws_secret_access_key=self.secret_access_key,
                region_name=REGION,
            )
        return self._client

    def start(self, timeout: float = 30) -> None:
        """Start it empty; do nothing if it is running.

        Raises:
            ServerError: it did not start within `timeout` seconds.
        """
        if self._keeper is not None:
            return
        self.port = free_port()
        self._home = home = Path(tempfile.mkdtemp(prefix="penstock-s3-"))
        self._keeper = kept(self.command(home), home, self._environ())
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self._keeper.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self.port)) == 0:
                    return
            time.sleep(0.02)
        words = (home / "log").read_text(errors="replace")
        self.close()
        raise ServerError(f"{self.name} did not start\n{words}")

    def _environ(self) -> dict[str, str]:
        """Return our environment without variables that the server would read."""
        return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}

    def close(self) -> None:
        """Stop it and drop its contents; do nothing if it is stopped."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._keeper is not None:
            assert self._keeper.stdin is not None
            if self._keeper.poll() is None:
                # SIGTERM would make it wait for connections that clients keep; it has nothing to
                # save.
                for child in psutil.Process(self._keeper.pid).children():
                    child.kill()
            self._keeper.stdin.close()
            self._keeper.wait(30)
            self._keeper = None
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def create_bucket(self, name: str) -> str:
        """Create an empty bucket, and return its name."""
        self.client.create_bucket(Bucket=name)
        return name

    def put(self, bucket: str, key: str, content: bytes | Path) -> str:
        """Write an object, and return ``bucket/key``.

        Args:
            bucket: the name of the bucket.
            key: the key of the object.
            content: the bytes, or the file that contains them.
        """
        body = content.read_bytes() if isinstance(content, Path) else content
        self.client.put_object(Bucket=bucket, Key=key, Body=body)
        return f"{bucket}/{key}"

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the keys of all objects below a prefix, in order."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def read(self, bucket: str, key: str) -> bytes:
        """Return the contents of an object."""
        return self.client.get_object(Bucket=bucket, Key=key)["Body"].read()

    def uploads(self, bucket: str) -> list[Any]:
        """Return the multipart uploads that are neither completed nor aborted."""
        return list(self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", []))


class S3Gateway(S3Server):
    """versitygw over a folder: an independent program that checks signatures."""

    name: ClassVar[str] = "versitygw"

    def command(self, home: Path) -> list[str]:
        data = home / "data"
        data.mkdir()
        return [str(_gateway()), "--port", f"{HOST}:{self.port}", "--quiet", "posix", str(data)]

    def _environ(self) -> dict[str, str]:
        return {
            **super()._environ(),
            "ROOT_ACCESS_KEY": self.access_key_id,
            "ROOT_SECRET_KEY": self.secret_access_key,
        }

    @staticmethod
    def missing() -> str | None:
        """Build it if necessary, and return the reason why it is missing; otherwise None."""
        try:
            _gateway()
        except ServerError as error:
            return str(error)
        return None


def _gateway() -> Path:
    """Return the program, which Go builds into a folder that is kept.

    Raises:
        ServerError: Go is missing, or cannot build it.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "penstock-testkit"
    program = folder / "versitygw"
    if program.exists():
        return program
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise ServerError("versitygw is built with Go, which is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    # Another process may be building it now, so use a unique name, then rename.
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        built = subprocess.run(
            [go, "install", GATEWAY],
            env={**os.environ, "GOBIN": temporary},
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise ServerError(f"versitygw cannot be built: {built.stderr.strip()[-400:]}")
        (Path(temporary) / "versitygw").replace(program)
    return program
