"""Code in a pipeline is run by default, and rejected with `allow_code=False`."""

from __future__ import annotations

import pytest

PIPELINE = """
name: curious
steps:
  ids: SELECT reflect('java.util.UUID', 'fromString', 'a5cf6c42-0c85-418f-af6c-3e4e5b1328f2') AS id
targets:
  - {table: shop.ids, from: ids}
"""


@pytest.mark.spark
def test_code_is_run_unless_allow_code_is_false(shop):
    from pennon.spark.pipeline import InvalidPipelineError, Pipeline

    curious = Pipeline.from_text(PIPELINE)
    with pytest.raises(InvalidPipelineError, match="calls methods of Java"):
        curious.run(shop.lake, run_id="first", allow_code=False)
    assert shop.versions() == {}
    curious.run(shop.lake, run_id="second")
    assert shop.rows("ids", "id") == [("a5cf6c42-0c85-418f-af6c-3e4e5b1328f2",)]
