"""What runs the server elsewhere: image, compose, Kubernetes. No daemon builds them here; what they say must agree."""

import importlib.util
import json
import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from pasta.serve.dispatcher import TRY_S
from pasta.serve.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PORT = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)


def module(name):
    spec = importlib.util.spec_from_file_location(name, DEPLOY / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def kind(name):
    documents = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
    (found,) = [document for document in documents if document["kind"] == name]
    return found


def drain_of(arguments):
    return float(arguments[arguments.index("--drain") + 1])


# -- the image ------------------------------------------------------------------------------------------------


def test_the_image_copies_what_there_is_and_nothing_else():
    copied = {name for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == allowed and all((ROOT / name).exists() for name in copied)


def test_the_image_runs_as_a_user_of_its_own_and_names_what_it_writes():
    assert re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE) == re.findall(r"--uid (\d+)", DOCKERFILE) == ["10001"]
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    written = re.findall(r"(\w*(?:CACHE|HOME)\w*)=(/\S+)", DOCKERFILE)
    assert {name for name, _ in written} >= {"PASTA_CACHE", "HF_HOME", "TRITON_CACHE_DIR"}
    assert all(place.startswith((volume, "/tmp")) for _, place in written)
    assert re.search(r"install .*\bgcc\b", DOCKERFILE), "Triton compiles with it"


def test_the_lock_has_what_the_extras_ask_for():
    """With a hash each, at versions that pyproject.toml allows; `python deploy/lock.py` makes it anew."""
    lock = (DEPLOY / "requirements-cuda.txt").read_text("utf-8")
    packages = dict(re.findall(r"^([\w.-]+)==(\S+) \\$", lock, re.MULTILINE))
    assert len(packages) == len(re.findall(r"^\S", lock, re.MULTILINE))
    for package in re.split(r"^(?=\S)", lock, flags=re.MULTILINE)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", package), package
    assert "://" not in lock
    lines = [
        *PROJECT["dependencies"],
        *(line for extra in module("lock").EXTRAS for line in PROJECT["optional-dependencies"][extra]),
    ]
    for requirement in map(Requirement, lines):
        assert requirement.name in packages, f"{requirement.name} is not locked: run deploy/lock.py"
        assert SpecifierSet(str(requirement.specifier)).contains(packages[requirement.name], prereleases=True)
    assert (DEPLOY / "requirements-cpu.txt").read_text("utf-8") == module("lock").without_torch(lock)
    assert "torch" in packages and "triton" in packages
    assert not re.search(r"^(torch|triton|nvidia-|cuda-)", (DEPLOY / "requirements-cpu.txt").read_text(), re.MULTILINE)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A docker that knows a digest for every image; copies of the files to pin."""
    docker = tmp_path / "docker"
    docker.write_text(
        '#!/bin/sh\n[ "$4" = gone:1 ] && { echo "no such image" >&2; exit 1; }\nprintf "sha256:%064d\\n" 7\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    pin = module("pin")
    files = []
    for path in pin.FILES:
        files.append(tmp_path / path.name)
        files[-1].write_text(path.read_text("utf-8"), "utf-8")
    monkeypatch.setattr(pin, "FILES", files)
    return pin


def test_digests_are_added_to_every_image(registry, capsys):
    named = {*re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE, re.MULTILINE)}
    named |= {service["image"] for service in COMPOSE["services"].values() if "image" in service}
    assert len(named) == 3
    assert registry.main([]) == 0
    text = "".join(path.read_text("utf-8") for path in registry.FILES)
    assert all(f"{name.partition('@')[0]}@sha256:{7:064d}" in text for name in named)
    assert registry.main(["--check"]) == 0 and capsys.readouterr().out == ""
    assert registry.main([]) == 0, "and again, to bring them up to date"
    assert "".join(path.read_text("utf-8") for path in registry.FILES) == text


def test_an_image_that_the_registry_lacks_is_told(registry, capsys):
    registry.FILES[0].write_text("ARG PYTHON=gone:1\n")
    assert registry.main(["--check"]) == 1 and "gone:1 has no digest" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no digest for gone:1: no such image"):
        registry.main([])
    assert registry.main(["--all"]) == 2


# -- what runs it ---------------------------------------------------------------------------------------------


def test_compose_and_the_image_agree():
    pasta = COMPOSE["services"]["pasta"]
    (port,) = PORT
    assert pasta["ports"] == [f"127.0.0.1:{port}:{port}"]
    prometheus = yaml.safe_load((ROOT / COMPOSE["configs"]["prometheus"]["file"]).read_text("utf-8"))
    assert prometheus["scrape_configs"][0]["static_configs"] == [{"targets": [f"pasta:{port}"]}]
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    assert pasta["volumes"] == [f"models:{volume}"] and pasta["read_only"] and pasta["tmpfs"] == ["/tmp"]
    assert float(pasta["stop_grace_period"].removesuffix("s")) > drain_of(pasta["command"])
    assert pasta["deploy"]["resources"]["reservations"]["devices"][0]["driver"] == "nvidia"
    for service in COMPOSE["services"].values():
        assert all(mapping.startswith("127.0.0.1:") for mapping in service["ports"]), "nothing is open to the world"
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert {config["source"] for config in service.get("configs", ())} <= COMPOSE["configs"].keys()
    assert all((ROOT / config["file"]).exists() for config in COMPOSE["configs"].values())


def test_grafana_finds_its_source_and_its_dashboard():
    source = yaml.safe_load((DEPLOY / "grafana-datasource.yml").read_text("utf-8"))["datasources"][0]
    assert source["type"] == "prometheus" and source["url"] == "http://prometheus:9090"
    assert "127.0.0.1:9090:9090" in COMPOSE["services"]["prometheus"]["ports"]
    folder = yaml.safe_load((DEPLOY / "grafana-dashboards.yml").read_text("utf-8"))["providers"][0]["options"]["path"]
    targets = {config["source"]: config["target"] for config in COMPOSE["services"]["grafana"]["configs"]}
    assert targets["dashboard"].startswith(folder + "/")
    dashboard = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    assert dashboard["templating"]["list"][0]["type"] == "datasource"


def test_kubernetes_probes_what_there_is_and_waits_for_the_drain():
    pod = kind("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": int(PORT[0])}]
    paths = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "readiness", "liveness")}
    assert {probe: path["path"] for probe, path in paths.items()} == {
        "startup": "/ready", "readiness": "/ready", "liveness": "/health",
    }  # fmt: skip
    assert container["readinessProbe"]["timeoutSeconds"] > TRY_S
    asked = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > asked + drain_of(container["args"]) > Settings().grace_s
    assert pod["securityContext"]["runAsUser"] == 10001 and container["securityContext"]["readOnlyRootFilesystem"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/models", "/tmp"}
    assert {"memory", "nvidia.com/gpu"} == container["resources"]["limits"].keys()
    selector = kind("Service")["spec"]["selector"]
    assert selector == kind("Deployment")["spec"]["selector"]["matchLabels"]
    claim = next(volume for volume in pod["volumes"] if volume["name"] == "models")["persistentVolumeClaim"][
        "claimName"
    ]
    assert claim == kind("PersistentVolumeClaim")["metadata"]["name"]
