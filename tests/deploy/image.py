"""The image of deploy/Containerfile: built by a container engine, or as a root made of packages.

Without an engine, the steps of the last two stages run in a root of Debian's packages, whose Python
is of the same version as the official image's; the wheel of the first stage is built by this
machine's Rust.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest
from tests.packages import ROOT, build_wheels

from penstock_testkit.cache import cached_path
from penstock_testkit.mssql import docker_answers

CONTAINERFILE = ROOT / "deploy/Containerfile"
SUITE = "trixie"
TAG = "penstock-test"
# Settings of pip and of TLS, so that a root finds the packages that this machine finds.
SETTINGS = re.compile(r"(PIP|SSL|REQUESTS)_\w+|https?_proxy|no_proxy", re.IGNORECASE)


class Container(Protocol):
    """A running container."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to process 1."""

    def wait(self, seconds: float) -> tuple[int, str]:
        """Return the exit code, and the output."""


class Image(Protocol):
    """An image with Penstock."""

    how: str

    def start(self, *argv: str, environ: Mapping[str, str], program: str = "") -> Container:
        """Start a container with a read-only root file system, as the image's user.

        Args:
            argv: arguments of the image's program.
            environ: further environment variables.
            program: another program than the image's.
        """


class _EngineImage:
    how = "built and run by a container engine"

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        engine.images.build(path=str(ROOT), dockerfile="deploy/Containerfile", tag=TAG, rm=True)

    def start(self, *argv: str, environ: Mapping[str, str], program: str = "") -> Container:
        return _EngineContainer(
            self._engine.containers.run(
                TAG,
                list(argv),
                entrypoint=program or None,
                environment=dict(environ),
                network_mode="host",
                read_only=True,
                tmpfs={"/tmp": ""},
                cap_drop=["ALL"],
                detach=True,
            )
        )


class _EngineContainer:
    def __init__(self, container: Any) -> None:
        self._container = container

    def signal(self, number: signal.Signals) -> None:
        self._container.kill(signal=number.name)

    def wait(self, seconds: float) -> tuple[int, str]:
        code = self._container.wait(timeout=seconds)["StatusCode"]
        output = self._container.logs().decode()
        self._container.remove()
        return code, output


class _RootImage:
    how = f"no container engine answers: its steps run in a root of Debian's packages ({SUITE})"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._environ: dict[str, str] = {}
        self._user = ""
        self._entry: list[str] = []
        self._build()

    def _build(self) -> None:
        """Carry out the last two stages; both have the same base, so one root serves for both."""
        stages = re.split(r"^FROM .*$", CONTAINERFILE.read_text(), flags=re.MULTILINE)[-2:]
        build_wheels(self._root / "wheels", "core/native")
        steps = re.sub(r" *\\\n", " ", re.sub(r"^#.*\n", "", "".join(stages), flags=re.MULTILINE))
        settings = {name: value for name, value in os.environ.items() if SETTINGS.fullmatch(name)}
        arguments: dict[str, str] = {}
        for step in filter(None, steps.splitlines()):
            verb, _, rest = step.partition(" ")
            match verb:
                case "ARG":
                    arguments |= dict([rest.split("=", 1)])
                case "COPY" if not rest.startswith("--from="):
                    here, there = rest.split()
                    shutil.copytree(
                        ROOT / here,
                        self._root / there.lstrip("/"),
                        ignore=shutil.ignore_patterns("target", "__pycache__"),
                    )
                case "RUN":
                    command = ["chroot", str(self._root), "/bin/sh", "-ec", rest]
                    environ = {**settings, **arguments, "PATH": "/usr/bin:/bin:/usr/sbin"}
                    done = subprocess.run(
                        command, env=environ, capture_output=True, text=True, check=False
                    )
                    assert done.returncode == 0, f"{rest}\n{done.stdout}\n{done.stderr}"
                case "ENV":
                    self._environ |= dict(word.split("=", 1) for word in shlex.split(rest))
                case "USER":
                    self._user = rest
                case "ENTRYPOINT":
                    self._entry = re.findall(r'"(.*?)"', rest)

    def start(self, *argv: str, environ: Mapping[str, str], program: str = "") -> Container:
        root = shlex.quote(str(self._root))
        entry = [program] if program else self._entry
        command = ["chroot", f"--userspec={self._user}", str(self._root), *entry, *argv]
        script = (
            f"mount --bind {root} {root} && mount -o remount,bind,ro {root} &&"
            f" mount -t tmpfs tmpfs {root}/tmp && mount -t proc proc {root}/proc &&"
            f" mount --bind /dev {root}/dev && exec {shlex.join(command)}"
        )
        # The shell is process 1 of its namespace, then chroot, then the image's program.
        return _Namespace(
            subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-ec", script],
                env={**self._environ, **environ, "PATH": f"{self._environ['PATH']}:/usr/sbin"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )


class _Namespace:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def signal(self, number: signal.Signals) -> None:
        (first,) = psutil.Process(self._process.pid).children()
        first.send_signal(number)

    def wait(self, seconds: float) -> tuple[int, str]:
        try:
            output, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        return self._process.returncode, output


def _made_root(root: Path) -> None:
    subprocess.run(
        [
            *("mmdebstrap", "--variant=minbase", "--mode=root", "--quiet"),
            *("--include=python3,python3-venv,ca-certificates", SUITE, str(root)),
        ],
        check=True,
        cwd="/",
    )


@contextmanager
def image(folder: Path) -> Iterator[Image]:
    """Yield the image; skips the test if this machine cannot have one.

    Args:
        folder: an empty folder.
    """
    if docker_answers():
        import docker  # noqa: PLC0415 - slow, and rarely needed

        engine = docker.from_env()
        yield _EngineImage(engine)
        engine.close()
        return
    if os.geteuid() or not all(map(shutil.which, ("mmdebstrap", "unshare", "chroot", "cargo"))):
        pytest.skip("no container engine answers, and no root can be made without mmdebstrap")
    root = folder / "root"
    cached = cached_path("debian", f"{SUITE}-python3", _made_root)
    subprocess.run(["cp", "--archive", "--reflink=auto", cached, root], check=True)
    # Where this machine's packages come from.
    named = [value for name, value in os.environ.items() if SETTINGS.fullmatch(name)]
    for name in ("/etc/resolv.conf", "/etc/pip.conf", *named):
        if name.startswith("/") and Path(name).is_file():
            there = root / name.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            there.unlink(missing_ok=True)
            shutil.copy(name, there)
    yield _RootImage(root)
