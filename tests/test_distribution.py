"""What a release consists of. `make release-check` also installs it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from licences import find_rejected, render_report

ROOT = Path(__file__).parents[1]
SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
GENERATED = re.compile(r"/__pycache__/|\.pyc$")


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """Build an sdist and a wheel."""
    target = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(target)], cwd=ROOT, check=True)
    return target


def files_below(folder: str) -> set[str]:
    paths = ((path, path.relative_to(ROOT).as_posix()) for path in (ROOT / folder).rglob("*"))
    return {name for path, name in paths if path.is_file() and not GENERATED.search(name)}


def test_wheel_contains_the_package_and_nothing_else(dist):
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in names if ".dist-info/" not in name}
    assert package == {name.removeprefix("src/") for name in files_below("src")}
    assert "pennon/py.typed" in package
    assert {name.split(".dist-info/")[1] for name in names - package} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_sdist_contains_what_builds_and_tests_it(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "uv.lock"}
    folders = ("src", "tests", "docs", "scripts", "demo", "deploy")
    assert needed.union(*map(files_below, folders)) - {name for name in names if name} == set()
    assert not [name for name in names if GENERATED.search(name) or name.startswith((".venv", ".git/", "dist"))]


def test_metadata_passes_the_checks_of_an_index(dist):
    files = [str(path) for path in dist.iterdir()]
    subprocess.run([sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files], check=True)
    (wheel,) = dist.glob("*.whl")
    subprocess.run([str(Path(sys.executable).with_name("check-wheel-contents")), str(wheel)], check=True)
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    metadata = message_from_string(archive.read(name).decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert set(metadata.get_all("Provides-Extra")) == {"azure", "gcs", "server", "sigv4", "spark", "testing", "tracing"}


@pytest.mark.parametrize(
    ("licences", "reason"),
    [
        ([{"license": {"id": "MIT"}}], None),
        ([{"expression": "Apache-2.0 OR (MIT AND Zlib)"}], None),
        ([{"license": {"id": "GPL-3.0-only"}}], "GPL-3.0-only"),
        ([{"license": {"id": "MIT"}}, {"license": {"name": "Acme"}}], "Acme"),
        ([{"expression": "MIT AND AGPL-3.0-or-later"}], "AGPL-3.0-or-later"),
        ([], "no licence"),
    ],
)
def test_only_allowed_licences_pass(licences, reason):
    bom = {"components": [{"name": "some", "version": "1", "licenses": licences}]}
    assert find_rejected(bom) == ([f"some 1: {reason}"] if reason else [])
    assert render_report(bom).startswith("some 1\t")


def test_changelog_has_versions_with_known_sections_in_order():
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert versions[0].startswith("[Unreleased]\n")
    for version in versions:
        assert re.match(r"\[(Unreleased|\d+\.\d+\.\d+)\]( - \d{4}-\d{2}-\d{2})?\n", version)
        sections = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert sections == [section for section in SECTIONS if section in sections]
