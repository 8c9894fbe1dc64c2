from __future__ import annotations

from pathlib import Path

import pytest

from pennon.cli.failures import CommandFailure
from pennon.cli.settings import Options, resolve_connection

FILE = """
root = "data"
impl = "dir"

[properties]
drop_ttl = "1d"
legacy_markers = true
"storage.region" = "north"

[properties.storage]
timeout = 30

[profiles.test]
root = "/elsewhere"

[profiles.test.properties]
drop_ttl = "2d"
"""


@pytest.fixture
def settings_file(tmp_path) -> Path:
    path = tmp_path / "some.toml"
    path.write_text(FILE)
    return path


def test_missing_root_lists_all_ways_to_set_it():
    with pytest.raises(CommandFailure, match=r"--root, set PENNON_ROOT.*pennon\.toml.*config\.toml"):
        resolve_connection(Options(), {})


def test_file_sets_root_implementation_and_properties(settings_file):
    found = resolve_connection(Options(config=settings_file), {})
    assert found.impl == "dir"
    assert found.properties == {
        "root": str(settings_file.parent / "data"),
        "drop_ttl": "1d",
        "legacy_markers": "true",
        "storage.region": "north",
        "storage.timeout": "30",
    }


def test_options_override_environment_and_environment_overrides_file(settings_file):
    environment = {
        "PENNON_CONFIG": str(settings_file),
        "PENNON_ROOT": "/by/environment",
        "PENNON_PROPERTIES": "drop_ttl=3d,storage.region=south",
    }
    found = resolve_connection(Options(properties=("drop_ttl=4d",)), environment)
    assert found.properties == {
        "root": "/by/environment",
        "drop_ttl": "4d",
        "legacy_markers": "true",
        "storage.region": "south",
        "storage.timeout": "30",
    }
    assert resolve_connection(Options(root="/by/option"), environment).properties["root"] == "/by/option"


def test_profile_overrides_the_top_level(settings_file):
    found = resolve_connection(Options(config=settings_file, profile="test"), {})
    assert (found.properties["root"], found.properties["drop_ttl"]) == ("/elsewhere", "2d")
    assert found.properties["legacy_markers"] == "true"
    assert resolve_connection(Options(config=settings_file), {"PENNON_PROFILE": "test"}) == found


def test_file_can_set_the_default_profile(tmp_path):
    path = tmp_path / "some.toml"
    path.write_text('profile = "b"\n[profiles.a]\nroot = "/a"\n[profiles.b]\nroot = "/b"\n')
    assert resolve_connection(Options(config=path), {}).properties["root"] == "/b"
    assert resolve_connection(Options(config=path, profile="a"), {}).properties["root"] == "/a"


def test_file_in_the_working_directory_is_used_before_the_users_file(tmp_path):
    mine = tmp_path / "xdg" / "pennon"
    mine.mkdir(parents=True)
    (mine / "config.toml").write_text('root = "/mine"')
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert resolve_connection(Options(), environment).properties["root"] == "/mine"
    Path("pennon.toml").write_text('root = "here"')
    assert resolve_connection(Options(), environment).properties["root"] == str(Path.cwd() / "here")


def test_the_users_file_is_in_the_home_directory():
    folder = Path("~/.config/pennon").expanduser()
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('root = "~/lake"')
    assert resolve_connection(Options(), {}).properties["root"] == str(Path("~/lake").expanduser())


def test_properties_of_the_environment_may_be_json():
    environment = {"PENNON_ROOT": "/r", "PENNON_PROPERTIES": '{"storage": {"key": "a,b=c"}, "legacy_markers": false}'}
    assert resolve_connection(Options(), environment).properties == {
        "root": "/r",
        "storage.key": "a,b=c",
        "legacy_markers": "false",
    }


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("root = ", r"not valid TOML"),
        ("rooot = 1", r"unknown key 'rooot'"),
        ("root = 1", r"'root' must be a non-empty string"),
        ('root = ""', r"'root' must be a non-empty string"),
        ("properties = 1", r"'properties' must be a table"),
        ("[properties]\na = [1]", r"'a' must be a string"),
        ("[profiles]\na = 1", r"'profiles' must contain tables"),
        ("profile = 1", r"'profile' must be the name"),
        ("profile = 'x'", r"no profile 'x'; it has: none"),
        ("profile = 'x'\n[profiles.x]\nrooot = 1", r"unknown key 'profiles\.x\.rooot'"),
    ],
)
def test_invalid_file_is_reported_with_the_reason(tmp_path, content, told):
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(CommandFailure, match=told) as failure:
        resolve_connection(Options(config=path), {"PENNON_ROOT": "/r"})
    assert str(path) in str(failure.value)


def test_missing_file_and_profile_without_file_are_errors():
    with pytest.raises(CommandFailure, match=r"The settings file 'nope\.toml' does not exist"):
        resolve_connection(Options(config=Path("nope.toml")), {})
    with pytest.raises(CommandFailure, match="profile 'p'"):
        resolve_connection(Options(profile="p"), {})


@pytest.mark.parametrize("given", ["secret-without-key", "=secret-without-key"])
def test_a_property_without_its_key_is_not_repeated_in_the_message(given):
    for options, environment in (
        (Options(root="/r", properties=(given,)), {}),
        (Options(root="/r"), {"PENNON_PROPERTIES": given}),
    ):
        with pytest.raises(CommandFailure, match="KEY=VALUE") as failure:
            resolve_connection(options, environment)
        assert "secret" not in str(failure.value)


def test_empty_file_sets_nothing():
    environment = {"PENNON_CONFIG": "/dev/null", "PENNON_ROOT": "/r"}
    assert resolve_connection(Options(), environment).properties == {"root": "/r"}


def test_value_can_contain_an_equals_sign():
    assert (
        resolve_connection(Options(root="/r", properties=("storage.key=a=b==",)), {}).properties["storage.key"]
        == "a=b=="
    )
