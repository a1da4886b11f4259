"""Create the virtual environment of a checkout, with the standard library alone.

Usage: ``bootstrap.py VENV [OPTION]``. With ``--lock``, write ``uv.lock`` and the requirements of
Airflow 2, and install nothing. With ``--airflow2``, install those requirements; with ``--docs``,
the packages that build the site; with ``--lowest``, the lowest versions of dependencies. With
``--native``, build penstock-native into the environment, if this machine can. With ``--wheels
FOLDER``, build the wheel and the sdist of every distribution into an empty folder, and check them;
with ``--pure FOLDER``, leave out penstock-native, which needs Rust.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AIRFLOW_2 = Path("tests/airflow/airflow2-requirements.txt")
LOWEST = Path("tests/lowest-requirements.in")
PURE = ("core", "airflow_provider", "dagster_plugin")
NATIVE = Path("core/native")
# The oldest glibc that Rust's standard library supports: RHEL 7 and everything later.
MANYLINUX = "manylinux2014"


def run(*argv: str | Path, env: dict[str, str] | None = None) -> None:
    """Run a command in the checkout.

    Raises:
        SystemExit: the command failed; its own output is on stderr.
    """
    try:
        subprocess.run(argv, cwd=ROOT, env=env, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"bootstrap: {error}") from error


def make_venv(venv: Path) -> Path:
    """Create `venv` if it is missing, with uv in it.

    Returns:
        The path of uv.

    Raises:
        SystemExit: this Python has neither ensurepip nor pip.
    """
    python = venv / "bin/python"
    if subprocess.run([python, "-c", ""], check=False).returncode if python.exists() else True:
        shutil.rmtree(venv, ignore_errors=True)
        seeded = find_spec("ensurepip") is not None
        if not seeded and find_spec("pip") is None:
            raise SystemExit(
                f"bootstrap: {sys.executable} has neither ensurepip nor pip, so no virtual "
                "environment can be made; on Debian and Ubuntu: apt-get install python3-venv"
            )
        run(sys.executable, "-m", "venv", *([] if seeded else ["--without-pip"]), venv)
    uv = venv / "bin/uv"
    if not uv.exists():
        # Without ensurepip in this Python, the environment has no pip.
        pip = pip_of(python) or [*pip_of(sys.executable), "--python", str(python)]
        run(*pip, "install", "--quiet", "--disable-pip-version-check", "uv>=0.9")
    return uv


def pip_of(python: str | Path) -> list[str]:
    """Return the command that runs a Python's pip; empty if it has none."""
    pip = [str(python), "-m", "pip"]
    found = subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode == 0
    return pip if found else []


def pip_settings(venv: Path) -> dict[str, str]:
    """Return pip's configuration, from its files and its environment, by option name."""
    pip = pip_of(venv / "bin/python") or pip_of(sys.executable)
    if not pip:
        return {}
    listed = subprocess.run(
        [*pip, "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings: dict[str, str] = {}
    # pip's own order of precedence: the last one wins.
    for section in ("global.", "install.", ":env:."):
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section):
                settings[name.removeprefix(section)] = str(ast.literal_eval(value))
    return settings


def registry_environment(venv: Path) -> dict[str, str]:
    """Return an environment in which uv uses the registry that pip would use.

    uv reads none of pip's configuration. Variables set for uv itself take precedence.
    """
    pip = pip_settings(venv)
    # pip ignores a folder that does not exist; uv fails.
    links = [
        link for link in pip.get("find-links", "").split() if "://" in link or Path(link).is_dir()
    ]
    env = dict(os.environ)
    for name, value in {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": " ".join(pip.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(links),
        "UV_INSECURE_HOST": " ".join(pip.get("trusted-host", "").split()),
        "SSL_CERT_FILE": pip.get("cert", ""),
    }.items():
        if value and name not in env and not (name == "UV_DEFAULT_INDEX" and "UV_INDEX_URL" in env):
            env[name] = value
    return env


def without_registry(env: dict[str, str]) -> dict[str, str]:
    """Return `env` with uv's default registry, for reading and writing the lock.

    The lock is the same for everyone, so a mirror's address must not get into it, and a lock
    written without the mirror must not look outdated.
    """
    own = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
    return {name: value for name, value in env.items() if name not in own}


# Arguments of `uv export`, for everything that developers need or for the packages of the site.
DEVELOPMENT = ("--all-packages", "--no-emit-package", "penstock-native")
SITE = ("--only-group", "docs")


def export(uv: Path, venv: Path, env: dict[str, str], parts: tuple[str, ...]) -> Path:
    """Return the lock as requirements, which any configured registry can serve.

    `uv sync` would do for one registry. With another one, it ignores the lock and resolves again;
    so the lock is exported, with its hashes, and exactly those files are installed.

    Args:
        uv: the program.
        venv: the folder of the environment.
        env: the environment variables.
        parts: arguments that select packages, such as `DEVELOPMENT`.
    """
    requirements = venv / "requirements.txt"
    try:
        run(
            *(uv, "export", "--quiet", "--no-config", "--locked", "--offline"),
            *parts,
            *("--output-file", requirements),
            env=without_registry(env),
        )
    except SystemExit as error:
        raise SystemExit(
            "bootstrap: uv.lock does not fit the pyproject files (uv's words are above); "
            "after a change of dependencies run: make lock"
        ) from error
    return requirements


def install(uv: Path, venv: Path, requirements: Path, env: dict[str, str]) -> None:
    """Install requirements, each pinned, and nothing else.

    Args:
        uv: the program.
        venv: the folder of the environment.
        requirements: the file that `export` has written.
        env: the environment variables.
    """
    python = venv / "bin/python"
    # Compile once here: if Python may not write bytecode, every process would compile again.
    options = ("--quiet", "--compile-bytecode", "--python", python)
    run(uv, "pip", "install", *options, "-r", requirements, env=env)


def install_native(uv: Path, venv: Path, env: dict[str, str]) -> None:
    """Build penstock-native and install it if Rust is there; otherwise report that it is missing.

    The stamp `.native` says "built", or is empty after a failed build, which is not repeated until
    something changes. Without cargo there is no stamp, since cargo may be installed later.

    Args:
        uv: the program.
        venv: the folder of the environment.
        env: the environment variables.
    """
    python, stamp, log = venv / "bin/python", venv / ".native", venv / "native.log"
    stamp.unlink(missing_ok=True)
    # If the build fails, remove an older build: the version does not tell them apart.
    older = ("pip", "uninstall", "--quiet", "--python", python, "penstock-native")
    subprocess.run([uv, *older], cwd=ROOT, env=env, capture_output=True, check=False)
    instead = "rows move through Python, which takes more CPU time"
    if shutil.which("cargo") is None:
        print(f"penstock-native is not built, as there is no cargo on PATH: {instead}")
        return
    print("Building penstock-native ...", flush=True)
    install = (uv, "pip", "install", "--no-deps", "--reinstall", "--python", python, NATIVE)
    with log.open("w", encoding="utf-8") as output:
        built = all(
            subprocess.run(
                argv, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT, check=False
            ).returncode
            == 0
            for argv in (install, (python, "-c", "import penstock_native"))
        )
    stamp.write_text("built\n" if built else "", encoding="utf-8")
    if not built:
        shown = log.relative_to(ROOT)
        print(f"penstock-native could not be built ({shown} says why): {instead}")


def build_pure(uv: Path, env: dict[str, str], folder: Path) -> None:
    """Build the wheels of the pure distributions, each from its sdist, as an installer would.

    Args:
        uv: the program.
        env: the environment variables.
        folder: the folder for the files.
    """
    for package in PURE:
        run(uv, "build", "--quiet", "--out-dir", folder, package, env=env)


def build_native(uv: Path, env: dict[str, str], folder: Path) -> None:
    """Build penstock-native's sdist, and its wheel for this CPU.

    Args:
        uv: the program.
        env: the environment variables.
        folder: the folder for the files.
    """
    maturin = (uv, "tool", "run", "--quiet", "--from", "maturin[zig]>=1.9,<2", "maturin")
    wheel = ("build", "--quiet", "--release", "--locked", "--sdist", "--out", folder)
    # zig links with the symbols of an old glibc, whichever is installed; maturin checks the wheel.
    linked = ("--zig", "--compatibility", MANYLINUX) if sys.platform == "linux" else ()
    run(*maturin, *wheel, *linked, "--manifest-path", NATIVE / "Cargo.toml", env=env)


def check_packages(uv: Path, env: dict[str, str], folder: Path) -> None:
    """Check that an index accepts the files of a folder, and that the wheels are complete.

    Args:
        uv: the program.
        env: the environment variables.
        folder: the folder of the files.
    """
    tool = (uv, "tool", "run", "--quiet", "--from")
    files = sorted(folder.glob("*.whl")) + sorted(folder.glob("*.tar.gz"))
    run(*tool, "twine>=7,<8", "twine", "--no-color", "check", "--strict", *files, env=env)
    wheels = [file for file in files if file.suffix == ".whl"]
    run(*tool, "check-wheel-contents>=0.6,<0.7", "check-wheel-contents", *wheels, env=env)


def lock(uv: Path, env: dict[str, str]) -> None:
    """Rewrite uv.lock, and the requirements of the environment with Airflow 2."""
    env = without_registry(env)
    run(uv, "lock", "--no-config", env=env)
    options = ("--quiet", "--no-config", "--universal", "--python-version", "3.11")
    comments = ("--no-header", "--no-annotate")
    requirements = AIRFLOW_2.with_suffix(".in")
    run(
        uv, "pip", "compile", *options, *comments, requirements, "--output-file", AIRFLOW_2, env=env
    )


def lowest(uv: Path, venv: Path, env: dict[str, str]) -> Path:
    """Return requirements with the lowest version of each direct dependency.

    They are not part of the lock: this shows whether the bounds hold today.

    Args:
        uv: the program.
        venv: the folder of the environment.
        env: the environment variables.
    """
    requirements = venv / "requirements.txt"
    options = ("--quiet", "--no-header", "--no-annotate", "--resolution", "lowest-direct")
    run(uv, "pip", "compile", *options, LOWEST, "--output-file", requirements, env=env)
    return requirements


def main() -> None:
    venv = ROOT / sys.argv[1]
    uv = make_venv(venv)
    env = registry_environment(venv)
    # Use the environment's own Python, whatever else uv might find or download.
    env |= {"UV_PYTHON": str(venv / "bin/python"), "UV_PYTHON_DOWNLOADS": "never"}
    if sys.argv[2:] == ["--lock"]:
        lock(uv, env)
        return
    if sys.argv[2:] == ["--native"]:
        install_native(uv, venv, env)
        return
    if sys.argv[2:3] in (["--pure"], ["--wheels"]):
        folder = ROOT / sys.argv[3]
        # Files of an earlier version would be published with this one.
        shutil.rmtree(folder, ignore_errors=True)
        build_pure(uv, env, folder)
        if sys.argv[2] == "--wheels":
            build_native(uv, env, folder)
        check_packages(uv, env, folder)
        return
    print(f"Installing into {sys.argv[1]} ...", flush=True)
    if sys.argv[2:] == ["--airflow2"]:
        requirements = AIRFLOW_2
    elif sys.argv[2:] == ["--lowest"]:
        requirements = lowest(uv, venv, env)
    else:
        requirements = export(uv, venv, env, SITE if sys.argv[2:] == ["--docs"] else DEVELOPMENT)
    install(uv, venv, requirements, env)


if __name__ == "__main__":
    main()
