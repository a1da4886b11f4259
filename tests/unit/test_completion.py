"""`penstock completion`: the scripts complete command lines in real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from penstock.cli.main import main

SHELLS = ("bash", "zsh", "fish")
# In an interactive shell, readline calls the function that `complete` has named.
IN_BASH = """
eval "$(cat "$1")"
[[ $(complete -p penstock) =~ -F\\ ([a-z_]+) ]] && function=${BASH_REMATCH[1]}
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
"$function"
printf '%s\\n' "${COMPREPLY[@]}"
"""
CASES = [
    ("penstock co", {"copy", "copy-all", "control-ddl", "completion"}),
    ("penstock copy --mod", {"--mode"}),
    ("penstock copy --mode ", None),  # every mode: see below
    ("penstock copy --mode tr", {"truncate"}),
    ("penstock copy --mode truncate --on-error c", {"continue"}),
    ("penstock copy ord", {"orders.toml", "orders.parquet"}),
    ("penstock copy --source ord", {"orders.toml", "orders.parquet"}),
    ("penstock copy --table ord", set()),
    ("penstock report run-1 --html ord", {"orders.toml", "orders.parquet"}),
    ("penstock completion z", {"zsh"}),
]
# After an equals sign. fish repeats the option.
EQUALS = [
    ("penstock copy --mode=tr", {"truncate"}),
    ("penstock copy --mode=truncate --on-error=c", {"continue"}),
    ("penstock copy --source=env:SHOP --mode tr", {"truncate"}),
    ("penstock copy --source env:SHOP ord", {"orders.toml", "orders.parquet"}),
    ("penstock copy --source=ord", {"orders.toml", "orders.parquet"}),
    ("penstock report run-1 --html=ord", {"orders.toml", "orders.parquet"}),
    ("penstock copy --mode=", None),
]
MODES = {"append", "truncate", "replace", "upsert", "recreate", "swap", "attach"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("orders.toml", "orders.parquet"):
        (tmp_path / name).touch()
    return tmp_path


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    path = folder / f".completion.{shell}"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


def shell_or_skip(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def output(*argv: str | Path, cwd: Path) -> list[str]:
    """Return the lines that a shell prints; it must print no errors."""
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split("\n")


@pytest.mark.parametrize(("line", "expected"), CASES)
def test_bash_completes(
    line: str, expected: set[str] | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bash = shell_or_skip("bash")
    path = script("bash", folder, capsys)
    found = output(bash, "--norc", "-c", IN_BASH, "bash", path, *line.split(" "), cwd=folder)
    assert set(filter(None, found)) == (MODES if expected is None else expected)


@pytest.mark.parametrize(("line", "expected"), EQUALS)
@pytest.mark.parametrize("splits", [True, False], ids=["splits", "does not split"])
def test_bash_completes_after_an_equals_sign(
    line: str,
    expected: set[str] | None,
    splits: bool,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bash = shell_or_skip("bash")
    path = script("bash", folder, capsys)
    words = line.split(" ")
    option = ""
    if splits:
        # As with the default COMP_WORDBREAKS.
        words = [part for word in words for part in re.split("([=:]+)", word) if part]
    elif "=" in words[-1]:
        option = words[-1].partition("=")[0] + "="
    found = output(bash, "--norc", "-c", IN_BASH, "bash", path, *words, cwd=folder)
    assert set(filter(None, found)) == {f"{option}{word}" for word in expected or MODES}


# If a script suggests nothing, fish offers files.
@pytest.mark.parametrize(("line", "expected"), [case for case in CASES if case[1] != set()])
def test_fish_completes(
    line: str, expected: set[str] | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fish = shell_or_skip("fish")
    path = script("fish", folder, capsys)
    command = f"source {path}; complete --do-complete '{line}'"
    found = output(fish, "--no-config", "-c", command, cwd=folder)
    assert {text.partition("\t")[0] for text in found if text} >= (expected or MODES)


@pytest.mark.parametrize(("line", "expected"), EQUALS)
def test_fish_completes_after_an_equals_sign(
    line: str, expected: set[str] | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fish = shell_or_skip("fish")
    command = f"source {script('fish', folder, capsys)}; complete --do-complete '{line}'"
    found = output(fish, "--no-config", "-c", command, cwd=folder)
    words = {text.partition("\t")[0].rpartition("=")[2] for text in found if text}
    assert words == (expected or MODES)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_can_read_its_script(
    shell: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = shell_or_skip(shell)
    assert output(program, "-n", script(shell, folder, capsys), cwd=folder) == [""]


INTERACTIVE = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"]}
# As the user's own start-up files do.
BEFORE = {"bash": "", "zsh": "autoload -Uz compinit; compinit -D -u; "}


@pytest.mark.parametrize("shell", INTERACTIVE)
def test_the_tab_key_completes(
    shell: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = shell_or_skip(shell)
    path = script(shell, folder, capsys)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environment = {**os.environ, "TERM": "dumb", "HOME": str(folder)}
        os.execvpe(program, [program, *INTERACTIVE[shell]], environment)
    try:
        # The shell composes this text, so that it does not equal the typed characters.
        loads = f"{BEFORE[shell]}eval \"$(cat {path})\"; echo LOAD''ED\n"
        os.write(terminal, loads.encode())
        read_until(terminal, "LOADED")
        os.write(terminal, b"penstock copy orders.t\t --mode trunc\t")
        read_until(terminal, "truncate")
        os.write(terminal, b" --on-error=cont\t")
        read_until(terminal, "continue")
    finally:
        os.close(terminal)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def read_until(terminal: int, text: str) -> None:
    seen, deadline = "", time.monotonic() + 60
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        assert ready, seen
        seen += os.read(terminal, 4096).decode()
