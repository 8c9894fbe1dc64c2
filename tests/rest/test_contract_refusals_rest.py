"""The rest of the contract: what the served namespace refuses. Fast tests send each kind of error to the client."""

from __future__ import annotations

import pytest

from tests.rest.contract_tests import borrow_contract

pytestmark = pytest.mark.soak
globals().update(borrow_contract("test_lifetime", "test_missing", "test_names", "test_request_forms", "test_threads"))
