"""A table that is deregistered while it is overwritten keeps its data."""

from __future__ import annotations

import pytest

from pennon import DirectoryNamespace
from pennon.directory.lifecycle import overwrite
from tests.support import MODES, create_table, deregister_table, fails, ipc, register_table


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("managed", [False, True])
def test_table_deregistered_during_an_overwrite_keeps_its_data(tmp_path, monkeypatch, moment, managed):
    with DirectoryNamespace(root=str(tmp_path), **MODES["v2"]) as ns:
        if managed:
            ns.enable_table_version_management()
        create_table(ns, "t", data=ipc({"x": [1, 2]}))
        places = []
        original = overwrite.overwrite

        def interrupted(*arguments, **options):
            monkeypatch.undo()
            if moment == "before":
                places.append(deregister_table(ns, "t").location)
                return original(*arguments, **options)
            version = original(*arguments, **options)
            places.append(deregister_table(ns, "t").location)
            return version

        monkeypatch.setattr(overwrite, "overwrite", interrupted)
        with fails(4 if managed and moment == "before" else 14):
            create_table(ns, "t", data=ipc({"x": [3]}), mode="overwrite")
        register_table(ns, "t", location=places[0].rpartition("/")[2])
        refused = managed and moment == "before"
        assert ns.count_table_rows({"id": ["t"]}).count == (2 if refused else 1)
