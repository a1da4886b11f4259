"""The manifests are what Kubernetes' published schema and Penstock's own parser accept."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml  # type: ignore[import-untyped]

import penstock
from penstock import CopySpec
from penstock.cli.main import make_parser
from penstock.cli.work_command import _run_id, _spec
from penstock.errors import (
    EXIT_BUG,
    EXIT_DRIFT,
    EXIT_INTERRUPTED,
    EXIT_PERMANENT,
    EXIT_TRANSIENT,
    EXIT_USAGE,
)

from ..cli import Cli

if TYPE_CHECKING:
    from ..conftest import Connection

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNIT = DEPLOY / "systemd/penstock-work@.service"
SYSTEMD = shutil.which("systemd-analyze")
ROWS, SECONDS = 100_000, 120.0
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
# `podFailurePolicy` is stable since 1.31, `backoffLimitPerIndex` since 1.33, `podReplacementPolicy`
# since 1.34.
VERSIONS = ("1.33", "1.37")


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def job() -> dict[str, Any]:
    (found,) = documents(DEPLOY / "kubernetes/job.yaml")
    return found


def container() -> dict[str, Any]:
    (found,) = job()["spec"]["template"]["spec"]["containers"]
    return dict(found)


def compose() -> dict[str, Any]:
    (found,) = documents(DEPLOY / "compose.yaml")
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_published_schema_accepts_them(path: Path, version: str) -> None:
    for document in documents(path):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schema_rejects_what_it_does_not_know() -> None:
    wrong = job()
    wrong["spec"]["backofflimit"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_exit_codes_decide_what_is_tried_again() -> None:
    """Every code but 0 and those of signals has a rule, and the first that matches counts."""
    rules = job()["spec"]["podFailurePolicy"]["rules"]
    actions: dict[int, str] = {}
    for rule in rules:
        if codes := rule.get("onExitCodes"):
            assert codes["operator"] == "In"
            assert codes["containerName"] == container()["name"]
            for code in codes["values"]:
                actions.setdefault(code, rule["action"])
    lasting = (EXIT_USAGE, EXIT_PERMANENT, EXIT_BUG, EXIT_DRIFT)
    assert actions == {EXIT_TRANSIENT: "Ignore"} | dict.fromkeys(lasting, "FailIndex")
    assert EXIT_INTERRUPTED not in actions
    # A drained node's pod must not fail the job, whatever the pod makes of it.
    assert rules[0] == {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }


def test_rules_that_the_schema_cannot_express() -> None:
    """What the API server checks beyond its schema."""
    spec = job()["spec"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # for podFailurePolicy
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["completionMode"] == "Indexed"  # for backoffLimitPerIndex
    assert "backoffLimitPerIndex" in spec  # for FailIndex
    assert "backoffLimit" not in spec  # it would end the job before an index is out of tries
    # With fewer at once, a worker would wait for a place while the others wait for nothing.
    assert spec["parallelism"] == spec["completions"] > 1
    pod = spec["template"]
    (spread,) = pod["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    names = [
        each["metadata"]["name"]
        for path in MANIFESTS
        for each in documents(path)
        if each["kind"] == "ConfigMap"
    ]
    volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
    assert {each["name"] for each in container()["volumeMounts"]} == volumes.keys()
    assert [volumes["spec"]["configMap"]["name"]] == names


def test_pods_have_no_rights_and_no_secret_in_sight() -> None:
    pod = job()["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    environment = {each["name"]: each for each in container()["env"]}
    for name in ("SOURCE", "TARGET"):
        assert environment[name].keys() == {"name", "valueFrom"}
        assert environment[name]["valueFrom"].keys() == {"secretKeyRef"}
    assert "://" not in " ".join(container()["args"])
    service = compose()["services"]["worker"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]


def specs() -> dict[str, str]:
    (config,) = documents(DEPLOY / "kubernetes/spec.yaml")
    return {
        "kubernetes": config["data"]["penstock.toml"],
        "compose": compose()["configs"]["spec"]["content"],
    }


@pytest.mark.parametrize("name", ["kubernetes", "compose"])
def test_specs_are_valid(name: str) -> None:
    raw = tomllib.loads(specs()[name])
    spec = CopySpec.from_mapping(raw, name)
    assert (spec.source, spec.target) == ("env:SOURCE", "env:TARGET")


def unit() -> dict[str, str]:
    """Return the settings of the section [Service] of systemd's unit."""
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return dict(parser["Service"])


def command(name: str) -> list[str]:
    """Return the words of a worker's command, with the variables of its container."""
    if name == "systemd":
        return unit()["ExecStart"].replace("%i", "orders-1").split()[1:]
    if name == "compose":
        return list(compose()["services"]["worker"]["command"])
    values = {each["name"]: each.get("value", "") for each in container()["env"]}
    return [re.sub(r"\$\((\w+)\)", lambda m: values[m[1]], word) for word in container()["args"]]


@pytest.mark.parametrize("name", ["kubernetes", "compose", "systemd"])
def test_any_worker_may_be_the_first(name: str, tmp_path: Path) -> None:
    """Penstock's own parser finds a run's name, and a spec to plan it with."""
    file = tmp_path / "penstock.toml"
    file.write_text(specs()["kubernetes" if name == "systemd" else name])
    words = [str(file) if word.endswith(".toml") else word for word in command(name)]
    assert words[0] == "work"
    arguments = make_parser("work").parse_args(words)
    arguments.run_id = _run_id(arguments)
    spec = _spec(arguments)
    assert isinstance(spec, CopySpec)
    assert (spec.run_id, spec.table) == (arguments.run_id, "public.orders")


def test_a_unit_starts_a_worker_again_unless_that_cannot_help() -> None:
    codes = {int(code) for code in unit()["RestartPreventExitStatus"].split()}
    assert codes == {EXIT_USAGE, EXIT_PERMANENT, EXIT_BUG, EXIT_DRIFT}
    assert unit()["Restart"] == "on-failure"
    assert int(unit()["SuccessExitStatus"]) == EXIT_INTERRUPTED


@pytest.mark.skipif(SYSTEMD is None, reason="no systemd-analyze: it is systemd's")
@pytest.mark.skipif(
    not (Path("/run/systemd").is_dir() or os.access("/run", os.W_OK)),
    reason="systemd-analyze needs /run/systemd, and only root can make it",
)
def test_systemd_accepts_its_unit(tmp_path: Path) -> None:
    assert SYSTEMD is not None
    text = UNIT.read_text(encoding="utf-8")
    program = Path(sys.executable).with_name("penstock")
    for changed, is_right in ((text, True), (text.replace("RestartSec", "RestartSecond"), False)):
        file = tmp_path / UNIT.name.replace("@", "@orders-1")
        file.write_text(changed.replace("/opt/penstock/bin/penstock", str(program)))
        done = subprocess.run(
            [SYSTEMD, "verify", file], capture_output=True, text=True, check=False
        )
        assert (done.stderr == "") is is_right, done.stderr


def test_specs_are_mounted_where_commands_read_them() -> None:
    (file,) = (word for word in command("kubernetes") if word.endswith(".toml"))
    (mount,) = (each for each in container()["volumeMounts"] if each["name"] == "spec")
    (config,) = documents(DEPLOY / "kubernetes/spec.yaml")
    assert [f"{mount['mountPath']}/{name}" for name in config["data"]] == [file]
    (mounted,) = compose()["services"]["worker"]["configs"]
    assert mounted["target"] in command("compose")


def test_three_workers_of_the_compose_file_copy_its_table(
    source: Connection, target: Connection, tmp_path: Path
) -> None:
    """Its SQL, its spec and its command, in processes instead of containers."""
    raw, file = compose(), tmp_path / "penstock.toml"
    text = raw["configs"]["table"]["content"].replace("1000000", str(ROWS))
    for statement in filter(str.strip, text.split(";")):
        source.execute(statement)
    file.write_text(specs()["compose"])
    words = [str(file) if word.endswith(".toml") else word for word in command("compose")]
    environment = {**os.environ, "SOURCE": url_of(source), "TARGET": url_of(target)}
    count = raw["services"]["worker"]["deploy"]["replicas"]
    with (tmp_path / "log").open("w+b") as log:
        workers = [Cli(words, stderr=log, stdout=log, env=environment) for _ in range(count)]
        assert [worker.wait(SECONDS) for worker in workers] == [0] * 3, log.seek(0) or log.read()
    found = target.execute("SELECT count(*), count(DISTINCT id), max(id) FROM orders").fetchone()
    assert found == (ROWS, ROWS, ROWS)
    (run,) = penstock.runs(target=url_of(target))
    assert (run.run_id, run.status) == ("demo", "done")


def url_of(connection: Connection) -> str:
    info = connection.info
    return f"postgresql://{info.user}@127.0.0.1:{info.port}/{info.dbname}"


def test_compose_has_what_its_services_refer_to() -> None:
    """What `docker compose config` checks, without an engine."""
    raw = compose()
    services, configs = raw["services"], raw["configs"]
    for service in services.values():
        assert {each["source"] for each in service.get("configs", ())} <= configs.keys()
        assert service.get("depends_on", {}).keys() <= services.keys()
        assert "build" in service or ":" in service["image"]
    build = services["worker"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
