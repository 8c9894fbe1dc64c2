"""The page of troubleshooting: each message in a heading is provoked, and is as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import pennon
from pennon.cli.app import run
from pennon.directory.manifest.flags import WRITER_FLAGS
from pennon.errors import LanceNamespaceError
from pennon.server.access import Access
from tests.server.served import served
from tests.servers import CountingS3

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
HEADINGS = re.findall(r"^### `(.*)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
PROVOCATIONS: dict[str, Callable[[pennon.LakeCatalog], object]] = {}
"""Functions that raise the message of a heading, by the beginning of the heading."""
PIPELINE = "{name: p, sources: {o: {table: sales.orders}}, targets: [{table: sales.copy, from: o}]}"


def provokes(heading: str):
    def register(function):
        PROVOCATIONS[heading] = function
        return function

    return register


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """Open a catalog with a table, in the working directory."""
    for name in [*os.environ]:
        if name.startswith(("PENNON_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pennon.open("lake") as opened:
        opened.create_namespace("sales")
        opened.create_table("sales.orders", {"id": [1], "amount": [1.5]})
        yield opened


@pytest.mark.parametrize("heading", HEADINGS)
def test_the_message_of_a_heading_is_raised(heading, lake, capfd):
    provoke = _find(heading)
    raised = ""
    try:
        provoke(lake)
    except LanceNamespaceError as error:
        raised = str(error)
    messages = [raised, *capfd.readouterr().err.splitlines()]
    pattern = ".*".join(re.escape(part) for part in heading.split("…"))
    assert any(re.fullmatch(rf"(Error: )?{pattern}.*", one, re.DOTALL) for one in messages), messages


def test_every_provocation_belongs_to_a_heading():
    assert {_find(heading) for heading in HEADINGS} == {*PROVOCATIONS.values()}


def _find(heading: str):
    exact = PROVOCATIONS.get(heading)
    found = [exact] if exact else [one for begin, one in PROVOCATIONS.items() if heading.startswith(begin)]
    assert len(found) == 1, heading
    return found[0]


@provokes("No catalog is named")
def name_no_catalog(_lake):
    run(["ls"])


@provokes("There is no catalog at")
def read_a_missing_root(_lake):
    run(["--root", "missing", "ls"])


@provokes("The root '…' has the scheme")
def open_an_unknown_scheme(_lake):
    pennon.open("ftp://host/lake").tables()


@provokes("Unknown property")
def set_an_unknown_property(_lake):
    pennon.open("lake", properties={"drop_tll": "1d"})


@provokes("The file '…' sets the property")
def use_the_settings_of_a_stranger(_lake):
    Path("pennon.toml").write_text('root = "s3://b/lake"\n[properties]\n"storage.endpoint" = "http://127.0.0.1:1"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        run(["ls"])


@provokes("…: error sending request")
def open_a_store_that_does_not_answer(_lake):
    keys = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}
    pennon.open(
        "s3://b/lake", storage_options={"endpoint": "http://127.0.0.1:1", "allow_http": "true", **keys}
    ).tables()


@provokes("…: the bucket '…' does not exist")
def open_a_missing_bucket(_lake):
    with CountingS3() as store:
        pennon.open("s3://no-such-bucket/lake", storage_options=store.endpoint.storage_options()).tables()


@provokes("…: cannot connect")
def open_a_server_that_does_not_answer(_lake):
    pennon.open("http://127.0.0.1:1", properties={"retry_timeout": "0"}).tables()


@provokes("…: A bearer token is needed")
def send_a_wrong_token(lake):
    with served(lake.namespace, Access(token="right-right-right")) as url:
        pennon.open(url, token="wrong-wrong-wrong").tables()


@provokes("Namespace not found")
def create_a_table_in_a_missing_namespace(lake):
    lake.create_table("shop.orders", {"id": [1]})


@provokes("Table not found: '…'; did you mean '…'?")
def mistype_a_table(lake):
    lake.table("sales.ordres")


@provokes("Table not found: '…'")
def use_a_dropped_table(lake):
    lake.drop("sales.orders")
    lake.table("sales.orders")


@provokes("Table already exists")
def create_a_table_twice(lake):
    lake.create_table("sales.orders", {"id": [1]})


@provokes("Namespace not empty")
def drop_a_namespace_with_contents(lake):
    lake.drop_namespace("sales")


@provokes("inserting into the rows of table")
def append_another_type(lake):
    lake["sales.orders"].append({"id": ["x"], "amount": [1.0]})


@provokes("Column '…' of table '…' takes no nulls")
def append_a_null(lake):
    keys = lake.create_table("sales.keys", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    keys.append({"id": [None]})


@provokes("querying of table '…': Invalid user input: Schema error")
def filter_by_a_missing_column(lake):
    lake["sales.orders"].where("amout > 5").to_list()


@provokes("Table '…' has no column '…'")
def merge_by_a_missing_column(lake):
    lake["sales.orders"].merge({"id": [1]}, on="order")


@provokes("Table '…' has no column of vectors")
def search_without_vectors(lake):
    lake["sales.orders"].search([1.0]).to_list()


@provokes("querying of table '…': Query vector size")
def search_with_a_short_vector(lake):
    vectors = pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
    lake.create_table("sales.vectors", {"v": vectors}).search([1.0]).to_list()


@provokes("A full-text query without a column")
def search_words_without_an_index(lake):
    lake.create_table("sales.texts", {"body": ["tea"]}).search("tea").to_list()


@provokes("Deleting from table")
def delete_without_a_predicate(lake):
    lake["sales.orders"].delete("")


@provokes("Table '…' is declared")
def read_a_declared_table(lake):
    lake.namespace.declare_table({"id": ["sales", "later"]})
    lake["sales.later"].to_list()


@provokes("… is an old version")
def change_an_old_version(lake):
    lake["sales.orders"].at(version=1).append({"id": [2], "amount": [1.0]})


@provokes("Table '…' has no version")
def read_a_missing_version(lake):
    lake["sales.orders"].at(version=9).to_list()


@provokes("… A commit to several tables needs version management")
def use_a_transaction_without_version_management(lake):
    with lake.transaction() as t:
        t.append("sales.orders", {"id": [2], "amount": [1.0]})


@provokes("The change of table '…' cannot be made")
def append_to_a_table_that_is_overwritten(lake):
    lake.manage_versions()
    with lake.transaction() as t:
        t.append("sales.orders", {"id": [2], "amount": [1.0]})
        lake["sales.orders"].overwrite({"other": ["x"]})


@provokes("… its manifest has")
def open_a_catalog_of_a_later_version(lake):
    lake.namespace.close()
    lance.dataset("lake/__manifest").update_metadata({WRITER_FLAGS: str(1 << 40)})
    pennon.open("lake").create_namespace("more")


@provokes("Table '…' is not dropped")
def restore_what_was_not_dropped(lake):
    lake.undrop("sales.none")


@provokes("Cannot restore")
def restore_over_a_new_table(lake):
    lake.drop("sales.orders")
    lake.create_table("sales.orders", {"id": [1]})
    lake.undrop("sales.orders")


@provokes("Table '…' is kept until")
def purge_before_the_retention_is_over(lake):
    lake.drop("sales.orders")
    lake.purge("sales.orders")


@provokes("Table '…' is protected")
def drop_a_protected_table(lake):
    lake.protect("sales.orders")
    lake.drop("sales.orders")


@provokes("… No terminal to ask")
def drop_in_a_script(_lake):
    command = [sys.executable, "-m", "pennon", "--root", "lake", "drop", "sales.orders"]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=False)


@provokes("Listening at")
def serve_to_everybody(_lake):
    run(["--root", "lake", "serve", "--host", "0.0.0.0"])  # noqa: S104


@provokes("'…' needs …, which is not installed")
def serve_without_the_extra(_lake):
    code = "import sys; sys.modules['fastapi'] = None; from pennon.cli.app import run; run(['--root', 'lake', 'serve'])"
    subprocess.run([sys.executable, "-c", code], check=False)


@provokes("To publish all targets")
def run_a_pipeline_without_version_management(_lake):
    Path("p.yaml").write_text(PIPELINE)
    run(["--root", "lake", "run", "p.yaml"])
