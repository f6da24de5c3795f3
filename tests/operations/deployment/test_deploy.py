"""What is in deploy/ fits the code: every command line parses, ports and names agree, nobody is killed early."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from holdfast.runtime.app_loader import load
from holdfast.server.settings import DEFAULT_PORT, Settings
from holdfast.worker.worker import DRAIN_S
from tests.operations.deployment.commands import refusal
from tests.operations.deployment.test_configuration import in_code
from tests.support.project import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS: dict[str, list[dict[str, Any]]] = {
    path.name: list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for path in sorted((DEPLOY / "kubernetes").glob("*.yml"))
}
METRICS_PORT = 9464


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path, encoding="utf-8")
    return parser


def containers(kind: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pods and their one container, of these deployments."""
    found = [one for docs in MANIFESTS.values() for one in docs if one["kind"] == kind]
    return [
        (one["spec"]["template"]["spec"], one["spec"]["template"]["spec"]["containers"][0]) for one in found
    ]


def command_lines() -> dict[str, list[str]]:
    """Where it stands → the arguments of `holdfast` there."""
    found: dict[str, list[str]] = {}
    for name, service in COMPOSE["services"].items():
        if service.get("image") == "holdfast":
            found[f"compose {name}"] = shlex.split(service["command"])
    for path in UNITS:
        line = unit(path)["Service"]["ExecStart"].replace("%i", str(METRICS_PORT)).replace("%%", "%")
        _, _, arguments = line.rstrip("'").partition("/bin/holdfast ")
        found[path.name] = shlex.split(re.sub(r"\$\([^)]*\)", "now", arguments))
    for pod, container in containers("Deployment"):
        assert len(pod["containers"]) == 1
        found[f"kubernetes {container['name']}"] = container["args"]
    docker = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert 'ENTRYPOINT ["holdfast"]' in docker
    found["Dockerfile"] = yaml.safe_load(docker.rpartition("CMD ")[2])
    return found


@pytest.mark.parametrize("where", command_lines())
def test_a_command_line_is_one_that_holdfast_takes(where: str) -> None:
    arguments = command_lines()[where]
    assert arguments
    assert refusal(arguments) is None, f"holdfast {' '.join(arguments)}: {refusal(arguments)}"


def test_a_wrong_command_line_would_be_noticed() -> None:
    assert refusal(["serve", "--prot", "80"]) is not None
    assert refusal(["trace"]) is not None
    assert refusal(["serve", "--port", "many"]) is not None
    assert refusal(["no-such-command"]) is not None
    assert refusal(["db", "backup", "file.db"]) is None


def test_there_is_an_api_two_workers_postgres_and_nats() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"api", "worker-1", "worker-2", "postgres", "nats"}
    kinds = {name: [one["kind"] for one in docs] for name, docs in MANIFESTS.items()}
    assert kinds == {
        "api.yml": ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"],
        "secret.yml": ["Secret"],
        "workers.yml": ["ConfigMap", "Deployment", "PodDisruptionBudget"],
    }


def test_names_of_the_environment_are_ones_that_something_reads() -> None:
    said: set[str] = set()
    for path in [path for path in DEPLOY.rglob("*") if path.is_file() and path.name != "alerts.yml"]:
        said |= set(re.findall(r"\bHOLDFAST_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    assert {"HOLDFAST_STORE", "HOLDFAST_LOG_FORMAT"} <= said
    assert said <= in_code()


def _value(arguments: list[str], option: str) -> str | None:
    for nth, word in enumerate(arguments):
        if word == option:
            return arguments[nth + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def test_ports_agree() -> None:
    for where, arguments in command_lines().items():
        if arguments[0] == "serve":
            assert _value(arguments, "--port") == str(DEFAULT_PORT), where
        elif arguments[0] == "worker":
            assert _value(arguments, "--metrics-port") == str(METRICS_PORT), where
    assert COMPOSE["services"]["api"]["ports"] == [f"127.0.0.1:{DEFAULT_PORT}:{DEFAULT_PORT}"]
    docker = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert f"EXPOSE {DEFAULT_PORT} {METRICS_PORT}" in docker
    for pod, container in containers("Deployment"):
        (port,) = container["ports"]
        told = _value(container["args"], "--port") or _value(container["args"], "--metrics-port")
        assert str(port["containerPort"]) == told, pod
        for probe in ("livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == port["name"]
    (service,) = [one for one in MANIFESTS["api.yml"] if one["kind"] == "Service"]
    assert (service["spec"]["ports"][0]["port"], service["spec"]["ports"][0]["targetPort"]) == (
        DEFAULT_PORT,
        "http",
    )


def test_probes_ask_for_what_there_is() -> None:
    from holdfast.server.special_routes import WORKER_ENDPOINTS

    paths = {endpoint.path for endpoint in WORKER_ENDPOINTS}
    for _, container in containers("Deployment"):
        assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
        assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert {"/health/live", "/health/ready", "/metrics"} <= paths
    for name in ("api", "worker-1", "worker-2"):
        asked = re.search(
            r"http://127\.0\.0\.1:\d+(/[\w/]+)", COMPOSE["services"][name]["healthcheck"]["test"][3]
        )
        assert asked, name
        assert asked[1] in paths


def _seconds(text: str) -> float:
    return float(re.fullmatch(r"(\d+)s?", str(text))[1])  # type: ignore[index]


def test_nobody_is_killed_while_it_drains() -> None:
    slowest = max(DRAIN_S, Settings().drain_timeout_s)
    for name in ("api", "worker-1", "worker-2"):
        assert _seconds(COMPOSE["services"][name]["stop_grace_period"]) > slowest
    for pod, _ in containers("Deployment"):
        assert pod["terminationGracePeriodSeconds"] > slowest
    assert (
        _seconds(unit(DEPLOY / "systemd" / "holdfast-worker@.service")["Service"]["TimeoutStopSec"]) > DRAIN_S
    )
    served = unit(DEPLOY / "systemd" / "holdfast-serve.service")["Service"]
    assert _seconds(served["TimeoutStopSec"]) > Settings().drain_timeout_s


def test_selectors_select_what_they_mean() -> None:
    for docs in MANIFESTS.values():
        deployments = [one for one in docs if one["kind"] == "Deployment"]
        for one in docs:
            spec = one.get("spec", {})
            labels = spec.get("selector") or spec.get("podSelector")
            if labels is None:
                continue
            wanted = labels.get("matchLabels", labels)
            assert any(
                wanted.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
                for deployment in deployments
            ), one["metadata"]["name"]


def test_secrets_and_config_are_the_ones_that_exist() -> None:
    made = {(one["kind"], one["metadata"]["name"]) for docs in MANIFESTS.values() for one in docs}
    for pod, container in containers("Deployment"):
        for source in container["envFrom"]:
            assert ("Secret", source["secretRef"]["name"]) in made
        for volume in pod.get("volumes", []):
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in made


def test_the_applications_load(tmp_path: Path) -> None:
    assert set(load(str(DEPLOY / "app" / "app.py")).agents) >= {"greet"}
    (config,) = [one for one in MANIFESTS["workers.yml"] if one["kind"] == "ConfigMap"]
    compile(config["data"]["app.py"], "app.py", "exec")


def test_the_image_is_made_from_what_is_locked() -> None:
    docker = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    for name in re.findall(r"^COPY (?!--from)(.+) \S+$", docker, re.MULTILINE):
        for one in name.split():
            assert (ROOT / one).exists(), one
    assert "--require-hashes -r requirements/runtime.txt" in docker
    assert "USER holdfast" in docker
