"""Tokens of Google Cloud with an access boundary.

Google's own service cannot be reached by tests, so that an endpoint here checks what is sent to it.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from werkzeug.wrappers import Request, Response

from pennon.errors import ServiceUnavailableError
from pennon.server.vending.google import BoundaryVendor
from pennon.server.vending.settings import GoogleBoundary
from tests.server.vending.services import serve_locally

if TYPE_CHECKING:
    from collections.abc import Iterator


class Google:
    """The two endpoints of Google: tokens for service accounts, and the exchange of tokens."""

    def __init__(self) -> None:
        self.issued = 0
        self.exchanged: list[dict[str, str]] = []
        self.answer: object = {"expires_in": 1000}
        self.url = ""

    def serve(self, request: Request) -> Response:
        if request.path == "/token":
            self.issued += 1
            assert request.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            return _json({"access_token": f"own-{self.issued}", "expires_in": 3600, "token_type": "Bearer"})
        assert request.path == "/exchange"
        self.exchanged.append({name: values[0] for name, values in parse_qs(request.get_data(as_text=True)).items()})
        if not isinstance(self.answer, dict):
            return _json(self.answer)
        return _json({"access_token": f"limited-{len(self.exchanged)}", **self.answer})


def _json(content: object) -> Response:
    return Response(json.dumps(content), content_type="application/json")


@pytest.fixture
def google(tmp_path, monkeypatch) -> Iterator[Google]:
    found = Google()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with serve_locally(Request.application(found.serve)) as found.url:
        account = {
            "type": "service_account",
            "project_id": "p",
            "client_email": "server@p.iam.gserviceaccount.com",
            "private_key": key.decode(),
            "token_uri": f"{found.url}/token",
        }
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        yield found


@pytest.fixture
def vendor(google) -> BoundaryVendor:
    return BoundaryVendor(GoogleBoundary(token_endpoint=f"{google.url}/exchange"))


@pytest.mark.parametrize(("writes", "role"), [(False, "objectViewer"), (True, "objectUser")])
def test_a_token_is_exchanged_for_one_with_a_boundary(google, vendor, writes, role):
    found = vendor.vend("gs://lake/root/ab12_s%24o%22r", writes=writes, user="ann")
    assert found["google_storage_token"] == "limited-1"
    assert 990 < int(found["expires_at_millis"]) / 1000 - time.time() <= 1000
    (sent,) = google.exchanged
    assert sent["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert sent["subject_token"] == "own-1"
    (rule,) = json.loads(unquote(sent["options"]))["accessBoundary"]["accessBoundaryRules"]
    assert rule["availableResource"] == "//storage.googleapis.com/projects/_/buckets/lake"
    assert rule["availablePermissions"] == [f"inRole:roles/storage.{role}"]
    expression = rule["availabilityCondition"]["expression"]
    assert expression.startswith(r'resource.name.startsWith("projects/_/buckets/lake/objects/root/ab12_s$o\"r/") || ')
    assert expression.endswith(r"""'storage.googleapis.com/objectListPrefix', '').startsWith("root/ab12_s$o\"r/")""")
    assert vendor.vend("gs://lake/root/ab12_s%24o%22r", writes=writes, user="ann") == found
    vendor.vend("gs://lake/other", writes=writes, user="ann")
    assert (google.issued, len(google.exchanged)) == (1, 2)


def test_a_token_without_a_time_expires_with_the_servers_own(google, vendor):
    google.answer = {}
    found = vendor.vend("gs://lake/t", writes=False, user="ann")
    assert 3500 < int(found["expires_at_millis"]) / 1000 - time.time() <= 3600


def test_tokens_that_are_almost_over_are_not_used_again(google, vendor):
    google.answer = {"expires_in": 200}
    tokens = {vendor.vend("gs://lake/t", writes=False, user="ann")["google_storage_token"] for _ in range(2)}
    assert tokens == {"limited-1", "limited-2"}


@pytest.mark.parametrize("answer", [[], {"access_token": ""}, {"access_token": 7}, {"access_token": None}])
def test_an_answer_without_a_token_is_an_error(google, vendor, answer):
    google.answer = answer
    with pytest.raises(ServiceUnavailableError) as caught:
        vendor.vend("gs://lake/t", writes=False, user="ann")
    assert "own-1" not in str(caught.value)


def test_other_stores_get_nothing(google, vendor):
    for location in ("s3://lake/t", "/data/t", "gs://lake", "gs://lake/"):
        assert vendor.vend(location, writes=False, user="ann") is None
    assert google.issued == 0
