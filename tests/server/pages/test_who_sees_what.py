"""Signing in, rights, forged forms and headers, by plain HTTP."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pyarrow as pa
import pytest
import urllib3

from pennon import DirectoryNamespace, TableStatus
from pennon.server.access import Access
from pennon.server.pages.routes import PAGES
from pennon.server.pages.sessions import Sessions
from pennon.server.permissions.audit import AuditLog
from pennon.server.permissions.guard import choose_guard
from pennon.server.permissions.policy_file import PolicyFile
from pennon.server.permissions.users import Users
from tests.pipeline_runs.runs import record_runs
from tests.server.pages.conftest import make_trash
from tests.server.pages.media_files import make_png
from tests.server.permissions.policies import write_policy
from tests.server.served import served
from tests.support import create_namespace, create_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROLES = ("reader", "writer", "owner", "admin", "root")
RULES = """
grants:
  - {role: reader, namespace: m, to: reader}
  - {role: writer, namespace: m, to: writer}
  - {role: owner, namespace: m, to: owner}
  - {role: admin, namespace: m, to: admin}
  - {role: admin, namespace: /, to: root}
  - {role: reader, table: s.deep.one, to: ann}
"""
INLINE = re.compile(r'\son\w+=|\sstyle=|<style|<script>|javascript:|(src|href|action)="(https?:)?//')
FORM = "application/x-www-form-urlencoded"


@dataclass
class Person:
    """A browser without scripts: it keeps cookies and sends forms."""

    url: str
    cookies: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, body: str | None = None, **headers: str) -> urllib3.BaseHTTPResponse:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        given = {"Cookie": cookie} if cookie else {}
        given |= {"Content-Type": FORM} if body is not None else {}
        answer = urllib3.request(
            method,
            self.url + path,
            body=body,
            headers={**given, **headers},
            retries=False,
            redirect=False,
            timeout=60.0,
        )
        for line in answer.headers.getlist("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    def get(self, path: str, **headers: str) -> urllib3.BaseHTTPResponse:
        return self.send("GET", path, **headers)

    def text(self, path: str) -> str:
        return self.get(path).data.decode()

    def post(self, path: str, fields: dict[str, str], **headers: str) -> urllib3.BaseHTTPResponse:
        return self.send("POST", path, urlencode(fields), **{"Origin": self.url, **headers})

    def form_token(self) -> str:
        return re.search('name="form_token" value="([0-9a-f]+)"', self.text("/pages/trash?namespace=m"))[1]

    def sign_in(self, key: str) -> urllib3.BaseHTTPResponse:
        return self.post("/pages/sign-in", {"token": key, "next": "/"})


@dataclass
class Guarded:
    """A served catalog with a policy."""

    url: str
    catalog: DirectoryNamespace
    keys: dict[str, str]
    audit: Path

    def person(self, user: str) -> Person:
        person = Person(self.url)
        assert person.sign_in(self.keys[user]).status == 303
        return person

    def records(self) -> list[dict]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    written = write_policy(directory / "policy.yaml", [*ROLES, "ann"], RULES)
    policy, audit = PolicyFile.open(written.file), directory / "audit.jsonl"
    root = directory / "root"
    root.mkdir()
    access, log = Access(None, Users(policy)), AuditLog.open(str(audit))
    with DirectoryNamespace(root=str(root), dir_listing_enabled="false") as catalog:
        for names in (["m"], ["s"], ["s", "deep"], ["vault"]):
            create_namespace(catalog, *names)
        for names in (["m", "t"], ["s", "deep", "one"], ["s", "deep", "secret"], ["vault", "h"]):
            create_table(catalog, *names)
        record_runs(catalog.catalog.store)
        make_trash(catalog, "m", "dropped")
        make_trash(catalog, "vault", "dropped_secret")
        with served(catalog, access, guard=choose_guard(policy), audit=log) as url:
            yield Guarded(url, catalog, written.keys, audit)
    log._handler.close()


@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("/", "reader"),
        ("/pages/namespace/m", "reader"),
        ("/pages/tree/m", "reader"),
        ("/pages/search?q=t", "reader"),
        ("/pages/table/m$t", "reader"),
        ("/pages/table/m$t/rows", "reader"),
        ("/pages/table/m$t/versions", "reader"),
        ("/pages/table/m$t/compare", "reader"),
        ("/pages/table/m$t/code", "reader"),
        ("/pages/trash", "reader"),
        ("/pages/trash?namespace=m", "owner"),
        ("/pages/trash/purge?id=m$dropped", "admin"),
        ("/pages/health", "reader"),
        ("/pages/health?namespace=m", "reader"),
        ("/pages/health/entries", "root"),
        ("/pages/runs", "root"),
        ("/pages/runs?namespace=m", "root"),
        ("/pages/runs/nightly", "root"),
        ("/pages/runs/nightly/2026-03-02", "root"),
    ],
)
def test_each_role_gets_the_pages_of_its_rights(guarded, path, least):
    statuses = {role: guarded.person(role).get(path).status for role in ROLES}
    allowed = ROLES[ROLES.index(least) :]
    assert statuses == {role: 200 if role in allowed else 403 for role in ROLES}


def test_hidden_objects_do_not_exist(guarded):
    ann = guarded.person("ann")
    start = ann.text("/")
    assert ">s</a>" in start
    assert "vault" not in start + ann.text("/pages/search?q=h") + ann.text("/pages/search?q=h&in=columns")
    listing = ann.text("/pages/namespace/s$deep")
    assert ">one</a>" in listing
    assert "secret" not in listing + ann.text("/pages/search?q=e") + ann.text("/pages/trash")
    for existing, missing in (("table/s$deep$secret", "table/s$deep$nosuch"), ("namespace/vault", "namespace/nosuch")):
        answers = [ann.get(f"/pages/{one}") for one in (existing, missing)]
        assert [one.status for one in answers] == [404, 404]
        texts = [one.data.decode().replace("secret", "?").replace("vault", "?") for one in answers]
        assert texts[0] == texts[1].replace("nosuch", "?")


def test_what_is_not_allowed_is_not_offered(guarded):
    offers = {}
    for role in ROLES:
        page = guarded.person(role).text("/pages/trash")
        offers[role] = ("m.dropped" in page, "Restore<" in page, "Purge…" in page)
    nothing, restore, everything = (False, False, False), (True, True, False), (True, True, True)
    assert offers == {
        "reader": nothing,
        "writer": nothing,
        "owner": restore,
        "admin": everything,
        "root": everything,
    }
    assert "dropped_secret" in guarded.person("root").text("/pages/trash")
    links = {role: 'href="/pages/runs"' in guarded.person(role).text("/") for role in ROLES}
    assert links == {"reader": False, "writer": False, "owner": False, "admin": False, "root": True}


def test_a_role_cannot_send_the_form_of_another(guarded):
    make_trash(guarded.catalog, "m", "kept")
    fields = {"id": "m$kept", "confirmation": "m.kept", "force": "yes"}
    for role in ("reader", "writer", "owner"):
        person = guarded.person(role)
        # Any page has the token in the form to sign out.
        token = re.search('name="form_token" value="([0-9a-f]+)"', person.text("/"))[1]
        assert person.post("/pages/trash/purge", {**fields, "form_token": token}).status == 403
    assert guarded.catalog.table_status(["m", "kept"]).status is TableStatus.SOFT_DELETED
    denied = [one for one in guarded.records() if one["operation"] == "PurgeTable"]
    assert [(one["who"], one["outcome"], one["status"]) for one in denied] == [
        (role, "denied", 403) for role in ("reader", "writer", "owner")
    ]
    admin = guarded.person("admin")
    answer = admin.post("/pages/trash/purge", {**fields, "form_token": admin.form_token()})
    assert (answer.status, answer.headers["location"]) == (303, "/pages/trash?done=purged&table=m%24kept")
    assert guarded.catalog.table_status(["m", "kept"]).status is TableStatus.NOT_FOUND
    last = guarded.records()[-1]
    assert (last["who"], last["operation"], last["outcome"]) == ("admin", "PurgeTable", "done")
    assert last["objects"] == [{"kind": "table", "id": ["m", "kept"]}]


def test_restoring_as_needs_the_right_to_create_there(guarded):
    make_trash(guarded.catalog, "m", "again")
    owner = guarded.person("owner")
    fields = {"id": "m$again", "form_token": owner.form_token()}
    assert owner.post("/pages/trash/restore", {**fields, "as": "vault.again"}).status == 404
    assert owner.post("/pages/trash/restore", {**fields, "as": "m.again2"}).status == 303
    assert guarded.catalog.table_status(["m", "again2"]).status is TableStatus.EXISTS


def test_sign_in_and_out(guarded):
    person = Person(guarded.url)
    answer = person.get("/pages/table/m$t?version=1")
    target = "%2Fpages%2Ftable%2Fm%24t%3Fversion%3D1"
    assert (answer.status, answer.headers["location"]) == (303, f"/pages/sign-in?next={target}")
    assert 'name="token"' in person.text(answer.headers["location"])
    wrong = person.post("/pages/sign-in", {"token": "pnk_wrong", "next": "/"})
    assert wrong.status == 401
    assert "unknown" in wrong.data.decode()
    assert person.cookies == {}
    key = guarded.keys["reader"]
    answer = person.post("/pages/sign-in", {"token": key, "next": "/pages/table/m$t?version=1"})
    assert (answer.status, answer.headers["location"]) == (303, "/pages/table/m$t?version=1")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    assert key not in cookie
    page = person.text("/pages/table/m$t?version=1")
    assert "reader" in page
    assert key not in page
    assert person.post("/pages/sign-out", {"form_token": "0" * 64}).status == 403
    kept = dict(person.cookies)
    token = re.search('name="form_token" value="([0-9a-f]+)"', page)[1]
    assert person.post("/pages/sign-out", {"form_token": token}).headers["location"] == "/pages/sign-in"
    assert Person(guarded.url, kept).get("/").status == 303, "the session goes on after signing out"
    assert [one["operation"] for one in guarded.records() if one["who"] == "reader"].count("SignIn") >= 1


def test_a_session_ends_with_its_time_and_when_there_are_too_many():
    ended = Sessions(seconds=0)
    assert ended.find(ended.begin("token")) is None
    few = Sessions(most=2)
    ids = [few.begin(token) for token in ("one", "two", "three")]
    found = [few.find(one) for one in ids]
    assert [one and one.token for one in found] == [None, "two", "three"]
    assert "two" not in repr(found)


def test_a_session_ends_with_the_key_and_changes_with_the_role(tmp_path):
    written = write_policy(tmp_path / "policy.yaml", ["ann", "bob"], "grants: [{role: admin, namespace: /, to: ann}]")
    policy = PolicyFile.open(written.file)
    with (
        DirectoryNamespace(root=str(tmp_path / "root"), dir_listing_enabled="false") as catalog,
        served(catalog, Access(None, Users(policy)), guard=choose_guard(policy)) as url,
    ):
        people = {name: Person(url) for name in ("ann", "bob")}
        for name, person in people.items():
            person.sign_in(written.keys[name])
        assert people["ann"].get("/pages/runs").status == 200
        rest = written.file.read_text()
        replace_policy(written.file, rest.replace("role: admin", "role: writer"), policy)
        assert people["ann"].get("/pages/health/entries").status == 403
        replace_policy(written.file, re.sub(r"(?m)^.*\bann\b.*$", "", rest).replace("grants:", ""), policy)
        assert people["ann"].get("/").status == 401
        assert people["bob"].get("/").status == 200


def replace_policy(file: Path, text: str, policy: PolicyFile) -> None:
    """Write a policy, and wait until it counts."""
    before = policy.current()
    file.write_text(text)
    deadline = time.monotonic() + 30
    while policy.current() is before:
        assert time.monotonic() < deadline


def test_refused_sign_ins_are_recorded_without_the_key(guarded):
    assert Person(guarded.url).post("/pages/sign-in", {"token": "pnk_guessed-key-0123456789"}).status == 401
    last = guarded.records()[-1]
    assert (last["outcome"], last["status"]) == ("denied", 401)
    assert "guessed" not in guarded.audit.read_text()


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example/", "/\\evil.example", "/v1/pennon", "javascript:alert(1)", "/\r\nX: y"],
)
def test_sign_in_leads_to_a_page_of_this_server(guarded, target):
    answer = Person(guarded.url).post("/pages/sign-in", {"token": guarded.keys["reader"], "next": target})
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_the_cookie_is_secure_where_the_browser_uses_tls(guarded):
    person = Person(guarded.url)
    host = guarded.url.removeprefix("http://")
    headers = {"Origin": f"https://{host}", "Sec-Fetch-Site": "same-origin"}
    answer = person.post("/pages/sign-in", {"token": guarded.keys["reader"]}, **headers)
    assert answer.status == 303
    assert answer.headers["set-cookie"].startswith("__Host-pennon-session=")
    assert "; Secure" in answer.headers["set-cookie"]


def test_the_cookie_opens_pages_only(guarded):
    root = guarded.person("root")
    assert root.get("/").status == 200
    for path in ("/v1/namespace/$/list", "/iceberg/v1/namespaces", "/metrics", "/v1/pennon/problems"):
        assert root.get(path).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_forms_of_other_sites_change_nothing(guarded, headers):
    root = guarded.person("root")
    fields = {"id": "m$dropped", "form_token": root.form_token()}
    assert root.post("/pages/trash/restore", fields, **headers).status == 403
    assert root.post("/pages/sign-out", fields, **headers).status == 403
    assert Person(guarded.url).post("/pages/sign-in", {"token": guarded.keys["root"]}, **headers).status == 403
    assert guarded.catalog.table_status(["m", "dropped"]).status is TableStatus.SOFT_DELETED


def test_a_link_from_another_site_leads_to_the_page(guarded):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    path = "/pages/search?q=%22%3E%3Cb%3E&in=names"
    answer = guarded.person("root").get(path, **headers)
    assert answer.status == 200
    assert f'content="0; url={path}"'.replace("&", "&amp;") in answer.data.decode()
    assert "m.t" not in answer.data.decode()
    framed = guarded.person("root").get(path, **{**headers, "Sec-Fetch-Dest": "iframe"})
    assert framed.status == 403
    assert guarded.person("root").get("/v1/namespace/$/list", **headers).status == 401


def test_forms_need_the_token_of_their_session(guarded):
    root, other = guarded.person("root"), guarded.person("root")
    for token in ("", "0" * 64, other.form_token(), "ä"):
        answer = root.post("/pages/trash/restore", {"id": "m$dropped", "form_token": token})
        assert answer.status == 403
    body = json.dumps({"id": "m$dropped", "form_token": root.form_token()})
    assert root.send("POST", "/pages/trash/restore", body, **{"Content-Type": "application/json"}).status == 400
    assert root.get(f"/pages/trash/restore?id=m$dropped&form_token={root.form_token()}").status == 405
    assert guarded.catalog.table_status(["m", "dropped"]).status is TableStatus.SOFT_DELETED


class MarkupReader(HTMLParser):
    """Collects tags and attributes that could run script, or load something from another host."""

    def __init__(self):
        super().__init__()
        self.unsafe = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in values):
            self.unsafe.append(tag)
        for name, value in attrs:
            elsewhere = name in {"src", "href", "action"} and re.match(r"(\w+:|//)", value or "")
            if name.startswith("on") or name == "style" or elsewhere:
                self.unsafe.append(f"{tag} {name}={value}")


def find_unsafe_markup(page):
    reader = MarkupReader()
    reader.feed(page)
    return reader.unsafe


def test_every_answer_has_the_headers(site):
    assert find_unsafe_markup("""<p onclick=x><a href="javascript:x"><img src=//x><script>x</script>""") == [
        "p onclick=x",
        "a href=javascript:x",
        "img src=//x",
        "script",
    ]
    person = Person(site.url)
    names = {"{id}": "sales$orders", "{pipeline}": "nightly", "{run}": "2026-03-01"}
    shown = [one.path for one in PAGES if one.method == "GET" and one.id != "ShowMedia"]
    paths = [re.sub(r"{\w+}", lambda found: names[found[0]], one) for one in shown]
    media = "/pages/table/ml$pictures/media?column=photo&row=0"
    asset = re.search('href="(/pages/static/pages.css[^"]*)"', person.text("/"))[1]
    for path in [*paths, "/pages/nothing", "/pages/table/no", media, asset, "/pages/sign-in", "/pages/static/../x"]:
        headers = person.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        if path not in {media, asset}:
            assert find_unsafe_markup(person.text(path)) == [], path


def test_only_pictures_and_sounds_are_sent(site):
    page, svg = b"<html><script>alert(1)</script></html>", b"<svg xmlns='http://www.w3.org/2000/svg' onload='a()'/>"
    rows = pa.table({"b": [make_png(), page, svg, None], "text": ["<b>"] * 4})
    create_table(site.catalog, "ml", "mixed", data=ipc(rows))
    person = Person(site.url)
    answers = [person.get(f"/pages/table/ml$mixed/media?column=b&row={row}") for row in range(5)]
    assert [one.status for one in answers] == [200, 400, 400, 400, 400]
    assert answers[0].headers["content-type"] == "image/png"
    assert "sandbox" in answers[0].headers["content-security-policy"]
    assert all(one.headers["content-type"].startswith("text/html") for one in answers[1:])
    assert person.get("/pages/table/ml$mixed/media?column=text&row=0").status == 400
    assert person.get("/pages/table/ml$mixed/media?column=none&row=0").status == 404
