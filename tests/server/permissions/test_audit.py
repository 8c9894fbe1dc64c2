"""The audit: a line for each change and each denial, with the user, and nothing secret in it."""

from __future__ import annotations

import json
import stat

from tests.server.http_client import namespace_path, table_path
from tests.support import ipc


def records(secured, since: int) -> list[dict]:
    text = secured.audit.read_bytes()[since:].decode("ascii")
    return [json.loads(line) for line in text.splitlines()]


def test_changes_and_denials_are_recorded_and_reads_are_not(secured):
    since = secured.audit.stat().st_size
    ann, nobody = secured.lance["ann"], secured.lance["nobody"]
    assert ann.call("POST", "/table/anns%24audited/create", ipc({"x": [1]})).status == 200
    assert ann.call("POST", "/table/anns%24audited/create", ipc({"x": [1]})).status == 409
    assert ann.call("POST", "/table/anns%24audited/describe", {}).status == 200
    assert ann.call("POST", "/table/shared%24deep%24one/drop", {}).status == 403
    assert nobody.call("POST", "/table/anns%24audited/count_rows", {}).status == 404
    assert secured.iceberg["ann"].call("DELETE", table_path("anns", "audited")).status == 204
    assert secured.iceberg["bob"].get(namespace_path("anns")).status == 404
    assert ann.call("POST", "/table/anns%24audited/drop", {}, Authorization="Bearer a.b.c").status == 401
    found = records(secured, since)
    assert [(one["who"], one["operation"], one["outcome"], one["status"]) for one in found] == [
        ("ann", "CreateTable", "done", 200),
        ("ann", "CreateTable", "failed", 409),
        ("ann", "DropTable", "denied", 403),
        ("nobody", "CountTableRows", "denied", 404),
        ("ann", "DropTable", "done", 204),
        ("bob", "LoadNamespace", "denied", 404),
        (None, None, "denied", 401),
    ]
    assert found[2]["objects"] == [{"kind": "table", "id": ["shared", "deep", "one"]}]
    assert found[5]["objects"] == [{"kind": "namespace", "id": ["anns"]}]
    assert len({one["request_id"] for one in found}) == len(found)
    assert all(one["client"] == "127.0.0.1" for one in found)


def test_no_value_can_begin_a_line_of_its_own(secured):
    since = secured.audit.stat().st_size
    forged = '{"who": "root"}'
    name = f"x%0A{forged.replace(chr(34), '%22').replace(' ', '%20')}%E2%80%A8%C2%85"
    secured.lance["ann"].call("POST", f"/table/bobs%24{name}/drop", {})
    secured.lance["ann"].call("POST", "/table/bobs%24%E2%80%A8x%F0%9F%98%80/drop", {})
    raw = secured.audit.read_bytes()[since:]
    assert all(32 <= letter < 127 or letter == 10 for letter in raw)
    assert all(one["who"] == "ann" for one in records(secured, since))
    assert records(secured, since)[-1]["objects"][0]["id"] == ["bobs", "\u2028x\U0001f600"]


def test_no_key_is_recorded_and_only_the_owner_reads(secured):
    text = secured.audit.read_text()
    assert "pnk_" not in text
    assert "Bearer" not in text
    assert stat.S_IMODE(secured.audit.stat().st_mode) == 0o600


def test_a_rotated_file_is_followed(secured):
    secured.audit.rename(secured.audit.with_suffix(".1"))
    assert secured.lance["ann"].call("POST", "/table/anns%24rotated/declare", {}).status == 200
    assert [one["operation"] for one in records(secured, 0)] == ["DeclareTable"]
