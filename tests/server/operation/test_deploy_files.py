"""The files in deploy/: they parse, and every option, variable and path in them exists."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from typer.main import get_group

from pennon.cli import serve as serve_command
from pennon.cli.serve_options import PREFIX
from pennon.cli.settings import Options, resolve_connection
from pennon.server.operation.health import ALIVE, READY

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "pennon"
SERVE = get_group(serve_command.app).commands["serve"]
NAMES = {parameter.name for parameter in SERVE.params}
FLAGS = {flag for parameter in SERVE.params for flag in parameter.opts}
KNOWN_VARIABLES = {
    "PENNON_ROOT",
    "PENNON_PROPERTIES",
    "PENNON_SERVER_TOKEN",
    *(PREFIX + name.upper() for name in NAMES),
}
toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def helm(*arguments: str) -> subprocess.CompletedProcess:
    command = [str(Path(sys.executable).parent / "helm"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def rendered(*values: str) -> dict[str, dict]:
    """Return the objects of the chart by their kinds."""
    made = helm("template", "lake", str(CHART), "--set", ",".join(("root=s3://bucket/lake", *values)))
    assert made.returncode == 0, made.stderr
    return {one["kind"]: one for one in yaml.safe_load_all(made.stdout) if one}


def require_variables(text: str) -> None:
    found = set(re.findall(r"\bPENNON_[A-Z_]+", text))
    assert found
    assert found <= KNOWN_VARIABLES


def require_options(words: list[str]) -> None:
    assert words[0] == "serve"
    assert {word for word in words if word.startswith("--")} <= FLAGS


def served_by(path: Path, monkeypatch, **environment: str) -> dict:
    """Parse the options as the command does."""
    for name, value in {"PENNON_SERVER_TOKEN": "x" * 16, **environment}.items():
        monkeypatch.setenv(name, value)
    return SERVE.make_context("serve", ["--config", str(path)]).params


def test_the_image_runs_the_server_without_rights():
    text = (DEPLOY / "Dockerfile").read_text()
    require_variables(text)
    project = toml.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(re.findall(r"--extra (\S+)", text)) <= project["optional-dependencies"].keys()
    lines = text.splitlines()
    assert "USER 10001:10001" in lines
    assert lines.index("USER 10001:10001") < lines.index('CMD ["serve"]')
    assert ALIVE in text
    copied = [one for line in lines if line.startswith("COPY ") and "--from" not in line for one in line.split()[1:-1]]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert all((ROOT / one).exists() and f"!{one}" in ignored for one in copied)


def test_the_compose_file_starts_an_object_store_and_the_server():
    path = DEPLOY / "compose" / "compose.yaml"
    require_variables(path.read_text())
    document = yaml.safe_load(path.read_text())
    services = document["services"]
    assert set(services) == {"store", "bucket", "pennon"}
    build = services["pennon"]["build"]
    assert (path.parent / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    environment = services["pennon"]["environment"]
    found = resolve_connection(Options(config=Path("/dev/null")), environment)
    assert found.properties["root"] == "s3://lake"
    identity = yaml.safe_load(document["configs"]["s3"]["content"])["identities"][0]["credentials"][0]
    assert found.properties["storage.access_key_id"] == identity["accessKey"]
    assert found.properties["storage.secret_access_key"] == identity["secretKey"]


def test_the_unit_is_valid_and_its_settings_are_options(tmp_path, monkeypatch):
    text = (DEPLOY / "systemd" / "pennon.service").read_text()
    require_variables(text)
    (command,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    require_options(command.split()[1:])
    found = served_by(DEPLOY / "systemd" / "server.toml", monkeypatch)
    assert (found["host"], found["stop_delay"]) == ("0.0.0.0", 5.0)  # noqa: S104 - with a token
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "pennon.service"
    unit.write_text(text.replace(command.split()[0], sys.executable))
    checked = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_chart_passes_helm_lint():
    linted = helm("lint", "--strict", str(CHART), "--set", "root=s3://bucket/lake")
    assert linted.returncode == 0, linted.stdout
    assert "root is the location of the catalog" in helm("template", "lake", str(CHART)).stderr


def test_the_chart_serves_by_its_settings(tmp_path, monkeypatch):
    found = rendered("tokenSecret=lake", "properties.storage\\.region=eu-west-1", "serve.max_running=64")
    config = tmp_path / "server.toml"
    config.write_text(found["ConfigMap"]["data"]["server.toml"])
    options = served_by(config, monkeypatch)
    assert (options["host"], options["max_running"], options["log_requests"]) == ("0.0.0.0", 64, True)  # noqa: S104 - with a token
    catalog = resolve_connection(Options(config=config), {})
    assert catalog.properties == {"root": "s3://bucket/lake", "storage.region": "eu-west-1"}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    require_options(container["args"])
    assert pod["terminationGracePeriodSeconds"] == 45
    assert container["readinessProbe"]["httpGet"]["path"] == READY
    assert container["livenessProbe"]["httpGet"]["path"] == ALIVE
    assert container["env"][0]["name"] == "PENNON_SERVER_TOKEN"
    assert container["ports"][0]["containerPort"] == options["port"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_the_chart_mounts_a_policy_where_the_server_reads_it():
    found = rendered("policySecret=users")
    policy = toml.loads(found["ConfigMap"]["data"]["server.toml"])["serve"]["policy"]
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "policy"]
    assert policy == f"{mount['mountPath']}/policy.yaml"
    assert {"name": "policy", "secret": {"secretName": "users"}} in pod["volumes"]


def test_the_chart_has_an_ingress_if_asked():
    assert "Ingress" not in rendered()
    ingress = rendered("ingress.enabled=true", "ingress.host=lake.example", "ingress.tlsSecret=lake")["Ingress"]
    assert ingress["spec"]["tls"] == [{"hosts": ["lake.example"], "secretName": "lake"}]


def test_the_guide_names_every_limit():
    guide = (ROOT / "docs" / "guides" / "deploy.md").read_text()
    named = {
        f"--{name.replace('_', '-')}" for name in NAMES if name.startswith(("max_", "queue_", "request_", "stop_"))
    }
    assert {option for option in named if option not in guide} == set()
