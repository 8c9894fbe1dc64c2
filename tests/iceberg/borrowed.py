"""Run tests of other suites on namespaces of an Iceberg REST catalog."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from lance_namespace import LanceNamespace

if TYPE_CHECKING:
    import pytest

    from tests.servers import S3Endpoint

_PYTEST_FIXTURES = {"tmp_path", "monkeypatch", "caplog"}


class Inside(LanceNamespace):
    """A catalog that puts every identifier below one namespace, so that tests can use root tables."""

    def __init__(self, catalog: Any, space: str) -> None:
        object.__setattr__(self, "_inner", catalog)
        object.__setattr__(self, "_space", space)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._inner, name)

    def namespace_id(self) -> str:
        return self._inner.namespace_id()

    def __getattribute__(self, name: str) -> Any:
        if name in {"_inner", "_space", "namespace_id"} or name.startswith("__"):
            return object.__getattribute__(self, name)
        if name == "_claim_branch":
            return lambda identifier, branch: self._inner._claim_branch((self._space, *identifier), branch)
        if name.startswith("_"):
            return getattr(self._inner, name)
        method, space = getattr(self._inner, name), self._space

        def call(request: Any, *rest: Any) -> Any:
            if isinstance(request, list):
                return method([space, *request], *rest)
            if isinstance(request, dict):
                return method({**request, "id": [space, *(request.get("id") or [])]}, *rest)
            return method(request.model_copy(update={"id": [space, *(request.id or [])]}), *rest)

        return call


def reach(bucket: S3Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Lance open tables in a bucket without storage options."""
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ENDPOINT", bucket.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", bucket.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", bucket.secret_key)
    monkeypatch.setenv("AWS_REGION", bucket.region)


def borrow_tests(
    folder: str, module: str, *given: str, without: frozenset[str] | dict[str, str] = frozenset()
) -> dict[str, Any]:
    """Return the tests of a module that use a `given` fixture, with the fixtures they need.

    Tests that need any other fixture are left out, and those in `without`, which must exist.
    """
    found = vars(importlib.import_module(f"tests.{folder}.{module}"))
    fixtures = {name: one for name, one in found.items() if _is_fixture(one)}
    usable, ours = {*given, *_PYTEST_FIXTURES}, set(given)
    while True:
        more = {
            name
            for name, one in fixtures.items()
            if name not in usable and (required := _required_fixtures(one.__wrapped__)) <= usable and required & ours
        }
        if not more:
            break
        usable |= more
        ours |= more
    tests = {name: one for name, one in found.items() if name.startswith("test_") and inspect.isfunction(one)}
    classes = {name: one for name, one in found.items() if name.startswith("Test") and inspect.isclass(one)}
    unknown = {name for name in set(without) - tests.keys() if not any(hasattr(one, name) for one in classes.values())}
    if unknown:
        raise ValueError(f"tests.{folder}.{module} has no tests {sorted(unknown)}")
    narrowed = {name: _narrow(one, usable, ours, frozenset(without)) for name, one in classes.items()}
    kept = {
        name: one
        for name, one in tests.items()
        if name not in without and (required := _required_fixtures(one)) <= usable and required & ours
    }
    chosen = {name: one for name, one in narrowed.items() if one is not None}
    return {**{name: fixtures[name] for name in (ours & fixtures.keys()).difference(given)}, **kept, **chosen}


def _narrow(suite: type, usable: set[str], ours: set[str], without: frozenset[str]) -> type | None:
    """Return a class with the tests of a class that need only usable fixtures, and one of ours; None without tests."""
    members = {name: getattr(suite, name) for name in dir(suite) if not name.startswith("__")}
    fixtures = {name: one for name, one in members.items() if _is_fixture(one)}
    usable, ours = set(usable), set(ours)
    for _ in fixtures:  # a fixture may need the one before it
        for name, one in fixtures.items():
            required = _required_fixtures(one.__wrapped__)
            if required <= usable and required & ours:
                usable.add(name)
                ours.add(name)
    tests = {name: one for name, one in members.items() if name.startswith("test_")}
    kept = {
        name
        for name, one in tests.items()
        if name not in without and (required := _required_fixtures(one)) <= usable and required & ours
    }
    return type(suite)(suite.__name__, (suite,), dict.fromkeys(tests.keys() - kept)) if kept else None


def _is_fixture(one: Any) -> bool:
    """Return True for a fixture, which is an object around the function that defines it."""
    return hasattr(one, "__wrapped__") and not inspect.isfunction(one)


def _required_fixtures(function: Any) -> set[str]:
    """Return the fixtures that a function requires, without the parameters of its own marks."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    given = {name.strip() for mark in marks for name in _names(mark.args[0])}
    return set(inspect.signature(function).parameters) - given - {"request", "self"}


def _names(argument: Any) -> list[str]:
    return argument.split(",") if isinstance(argument, str) else list(argument)
