"""The part of its parent's environment that a worker sees: no variable with a secret."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.backends.api.registry import find_backend
from penstock.workers.environment import ENVIRONMENT, worker_environment

PATTERNS = ("PGHOST", "PGSSL*")
# Characters that the value of an environment variable may have.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
names = st.one_of(
    st.sampled_from(["PATH", "HOME", "LC_ALL", "PYTHONPATH", "PGHOST", "PGSSLKEY", "PGPASSWORD"]),
    st.from_regex(r"[A-Z_]{1,12}", fullmatch=True),
)


def test_passes_only_needed_variables() -> None:
    environ = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": "lib",
        "PGHOST": "db",
        "PGSSLROOTCERT": "root.crt",
        "PGPASSWORD": "hunter2",
        "SOURCE": "scheme://me:hunter2@db/shop",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "XPATH": "no",
        "path": "no",
    }
    passed = worker_environment(environ, PATTERNS, ())
    assert set(passed) == {"PATH", "LC_ALL", "PYTHONPATH", "PGHOST", "PGSSLROOTCERT"}
    assert all(environ[name] == value for name, value in passed.items())


def test_leaves_out_a_needed_variable_that_contains_a_secret() -> None:
    environ = {"PYTHON_DATABASE": "scheme://me:hunter2@db/shop", "LANG": "hunter2", "PATH": "/bin"}
    passed = worker_environment(environ, PATTERNS, ["hunter2", ""])
    assert passed == {"PATH": "/bin"}


@given(st.dictionaries(names, texts), texts.filter(bool), st.data())
def test_no_secret_ever_passes(environ: dict[str, str], secret: str, data: st.DataObject) -> None:
    for name in data.draw(st.lists(names)):
        environ[name] = data.draw(texts) + secret + data.draw(texts)
    passed = worker_environment(environ, PATTERNS, [secret])
    assert not any(secret in value for value in passed.values())
    # Values without a secret still pass.
    assert {name for name in environ if name in ENVIRONMENT} - set(passed) == {
        name for name, value in environ.items() if name in ENVIRONMENT and secret in value
    }


def test_no_backend_needs_a_variable_that_contains_a_secret() -> None:
    backend, _ = find_backend("postgresql://db/shop", "--source")
    # https://www.postgresql.org/docs/current/libpq-envars.html
    environ = {
        "PGPASSWORD": "hunter2",
        "PGHOST": "db",
        "PGPASSFILE": "pass",
        "PGSSLMODE": "require",
    }
    passed = worker_environment(environ, backend.environment, ())
    assert set(passed) == {"PGHOST", "PGPASSFILE", "PGSSLMODE"}
