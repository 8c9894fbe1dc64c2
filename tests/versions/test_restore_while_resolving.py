"""A table that is restored while another client resolves it: first its row changes, then its marker."""

from __future__ import annotations

from tests.support import create_table, describe_table, drop_table, ipc


def test_table_restored_while_it_is_resolved_is_managed(tmp_path, open_namespace, monkeypatch) -> None:
    one, another = (open_namespace(tmp_path / "root") for _ in range(2))
    one.enable_table_version_management()
    create_table(one, "t", data=ipc({"x": [1]}))
    drop_table(one, "t")
    resolver = another._catalog.resolver
    original = resolver._manifest_entry

    def interrupted(identifier):
        seen = original(identifier)
        monkeypatch.undo()
        one.undrop_table(["t"])
        return seen

    monkeypatch.setattr(resolver, "_manifest_entry", interrupted)
    assert describe_table(another, "t").managed_versioning
