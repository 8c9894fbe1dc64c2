"""The code for Spark and SQL on the pages of a table runs."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import pytest
import urllib3

from pennon import DirectoryNamespace
from tests.server.served import served
from tests.support import create_namespace, create_table, ipc


@pytest.mark.parametrize("names", [("sales", "orders"), ("at_root",), ('it\'s `a` "b"', "x%y {z} <b>'; --")], ids=repr)
def test_code_of_a_page_shows_the_rows(spark, tmp_path, capsys, names):
    with DirectoryNamespace(root=str(tmp_path)) as catalog:
        if len(names) > 1:
            create_namespace(catalog, names[0])
        create_table(catalog, *names, data=ipc({"id": [7], "name": ["seven"]}))
        with served(catalog) as url:
            path = f"/pages/table/{quote('$'.join(names), safe='$')}/code"
            page = urllib3.request("GET", url + path).data.decode()
            found = re.findall(r'aria-label="Code for (\w+)"><code.*?>(.*?)</code>', page, re.DOTALL)
            code = {tool: html.unescape(text) for tool, text in found}
            variables: dict[str, object] = {}
            exec(code["Spark"], variables)  # noqa: S102 - it is what is tested
            assert "|  7|seven|" in capsys.readouterr().out
            rows = variables["lake"].sql(code["SQL"]).collect()
            assert [tuple(row) for row in rows] == [(7, "seven")]
