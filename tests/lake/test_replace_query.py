"""The copy in the lake follows when the query of its stream table is replaced."""

from __future__ import annotations

import pytest

from tests.lake.shore import SUMS, Shore


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(f"{SUMS} HAVING k > 1", id="same columns"),
        pytest.param(SUMS.replace("AS last", "AS last, min(id) AS first"), id="a column more"),
        pytest.param("SELECT k, sum(v) AS total FROM t GROUP BY k", id="columns less"),
    ],
)
def test_copy_follows_the_new_query(shore: Shore, query: str):
    shore.create("sums", SUMS)

    shore.trickle.alter_stream_table("sums", query=query)

    shore.check("sums")
    shore.window("sums", "UPDATE t SET v = v + 1 WHERE id < 7", "DELETE FROM t WHERE id = 9")
    assert shore.status() == ("DELIVERED", 0, None)
