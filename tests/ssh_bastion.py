"""An sshd of ours, and an ssh that has a configuration of its own instead of the user's."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import psutil

from penstock_testkit.servers import kept
from penstock_testkit.waiting import until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def sshd_missing() -> str:
    """Return why no sshd can run; empty if one can."""
    return "" if SSHD and shutil.which("ssh") else "sshd is not installed: openssh-server"


class Bastion:
    """A running sshd, which lets this user in by a key, and `bastion` in ssh's configuration.

    A context manager.

    Args:
        folder: an empty folder for its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known, self._log = folder / "known_hosts", folder / "log"
        self.me = pwd.getpwuid(os.getuid()).pw_name
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Bastion:
        for key in ("host", "mine", "another"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key)]
            subprocess.run(argv, check=True)
        self.trust()
        self.let_in("mine")
        self._write_programs()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write_programs(self) -> None:
        (self.folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.folder}/host\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin yes\nLogLevel DEBUG1\nAllowTcpForwarding local\n"
        )
        (self.folder / "ssh_config").write_text(
            f"Host bastion\n HostName 127.0.0.1\n Port {self.port}\n User {self.me}\n"
            f" IdentityFile {self.folder}/mine\n IdentitiesOnly yes\n"
            f" UserKnownHostsFile {self.known}\n GlobalKnownHostsFile /dev/null\n"
        )
        programs = self.folder / "bin"
        programs.mkdir()
        ssh = programs / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"\n')
        ssh.chmod(0o755)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of processes that shall find this configuration."""
        others = {name: v for name, v in os.environ.items() if name != "SSH_AUTH_SOCK"}
        return {**others, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def start(self) -> None:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where sshd, as root, locks up its children
        assert SSHD is not None
        program = [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        self._process = kept(program, self.folder)
        until(lambda: self._listens() or None, 20, self._log.read_text)

    def stop(self) -> None:
        """End it, with the connections that it has."""
        assert self._process is not None
        if self._process.poll() is not None:
            return
        children = psutil.Process(self._process.pid).children(recursive=True)
        for child in children:
            child.kill()
        self._process.wait(20)
        assert self._process.stdin is not None
        self._process.stdin.close()  # before the end, the keeper would remove the folder

    def _listens(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0

    def trust(self) -> None:
        """Have ssh know the host's key."""
        key = (self.folder / "host.pub").read_text()
        self.known.write_text(f"[127.0.0.1]:{self.port} {key}")

    def let_in(self, key: str) -> None:
        """Let in one key, and no other."""
        (self.folder / "authorized").write_text((self.folder / f"{key}.pub").read_text())

    @property
    def logins(self) -> int:
        """How often somebody has logged in."""
        return self._log.read_text(errors="replace").count("Accepted publickey")

    @property
    def sessions(self) -> int:
        """How many connections went through."""
        return self._log.read_text(errors="replace").count("server_request_direct_tcpip")

    def clients(self) -> list[psutil.Process]:
        """Return the processes of ssh that use this configuration."""
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if f"{self.folder}/ssh_config" in (process.info["cmdline"] or ())
            or str(self.folder / "bin/ssh") in (process.info["cmdline"] or ())
        ]
