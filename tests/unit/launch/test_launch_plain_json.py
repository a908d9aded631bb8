from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from slurmkit.launch.plain_json import encode

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_what_is_written_reads_back(value: object) -> None:
    assert json.loads(encode(value).encode("ascii")) == value
