"""Hidden columns of a quoted CSV header are found by their names, so that no raw user id stays in quarantine."""

import pytest

from jobs.impressions.tasks import _header


@pytest.mark.parametrize(
    ("line", "separator", "want", "why"),
    [
        (b'"search_id","user_id"', ",", ["search_id", "user_id"], "quoted names"),
        (b"\xef\xbb\xbfsearch_id,user_id", ",", ["search_id", "user_id"], "a byte order mark"),
        (b'"a;b";user_id', ";", ["a;b", "user_id"], "a separator inside quotes"),
        (b"search_id\tuser_id", "\t", ["search_id", "user_id"], "tabs"),
    ],
)
def test_names_of_a_header(line, separator, want, why):
    assert _header(line, separator) == want, why
