"""The manifests are what Kubernetes' published schema and Penstock's own parser accept."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml  # type: ignore[import-untyped]

from penstock import CopySpec
from penstock.cli.main import make_parser
from penstock.errors import (
    EXIT_BUG,
    EXIT_DRIFT,
    EXIT_INTERRUPTED,
    EXIT_PERMANENT,
    EXIT_TRANSIENT,
    EXIT_USAGE,
)

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
# `podFailurePolicy` is stable since 1.31, `podReplacementPolicy` since 1.34.
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
    assert actions == {EXIT_TRANSIENT: "Ignore"} | dict.fromkeys(lasting, "FailJob")
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
    assert not {"completionMode", "parallelism", "completions"} & spec.keys()
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
    service = compose()["services"]["copy"]
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


@pytest.mark.parametrize("name", ["kubernetes", "compose"])
def test_commands_are_valid(name: str) -> None:
    words = (
        container()["args"] if name == "kubernetes" else compose()["services"]["copy"]["command"]
    )
    make_parser(words[0]).parse_args(words)


def test_compose_has_what_its_services_refer_to() -> None:
    """What `docker compose config` checks, without an engine."""
    raw = compose()
    services, configs = raw["services"], raw["configs"]
    for service in services.values():
        assert {each["source"] for each in service.get("configs", ())} <= configs.keys()
        assert service.get("depends_on", {}).keys() <= services.keys()
        assert "build" in service or ":" in service["image"]
    build = services["copy"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
