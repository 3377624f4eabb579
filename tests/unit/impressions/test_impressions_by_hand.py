"""What is asked for on the command line: nothing is guessed, and what cannot work is wrong use."""

import re

import pytest

from jobs.core.errors import UsageError
from jobs.core.settings import Settings
from jobs.impressions.by_hand import dated, pairs_of, source_by_hand
from jobs.impressions.inputs import list_files
from jobs.impressions.job import app

SOURCES = [
    {"name": "web", "corpus": "tracks", "path": "logs/{day}/*.gz", "format": "ubi"},
    {"name": "app", "corpus": "tracks", "path": "app/{day}/*.gz", "format": "ubi"},
    {"name": "old", "corpus": "tracks", "path": "old", "format": "csv"},
    {"name": "films", "corpus": "films", "path": "films", "format": "ubi"},
]
SETTINGS = Settings.model_validate({"corpora": {"tracks": {}, "films": {}, "shows": {}}, "sources": SOURCES})
NOTHING = {"corpus": "", "form": "", "name": "", "columns": {}, "zone": "", "base": -1}


@pytest.mark.parametrize(
    ("asked", "name"),
    [({"name": "app"}, "app"), ({"corpus": "films"}, "films"), ({"corpus": "tracks", "form": "csv"}, "old"),
     ({"corpus": "shows", "form": "csv"}, "shows"), ({"name": "new", "corpus": "tracks", "form": "jsonl"}, "new")],
)  # fmt: skip
def test_the_source_that_is_meant(asked, name):
    assert source_by_hand(SETTINGS, **{**NOTHING, **asked}).name == name


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "the sources web, app, old, films all fit: say which with --name"),
        ({"corpus": "tracks", "form": "ubi"}, "the sources web, app all fit"),
        ({"corpus": "songs", "form": "csv"}, "--corpus songs: the configuration declares films, shows, tracks"),
        ({"name": "nobody"}, "no declared source fits"),
        ({"name": "web", "form": "xml"}, "--format xml: is no format: use ubi, csv, jsonl, parquet, delta"),
        ({"name": "web", "base": 2}, "--rank-base 2: the first place is counted as 0 or as 1"),
    ],
)
def test_what_is_not_clear_is_asked_for(asked, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        source_by_hand(SETTINGS, **{**NOTHING, **asked})


@pytest.mark.parametrize("text", ["query", "query=", "=q", "query=q,item"])
def test_half_a_pair_is_wrong_use(text):
    with pytest.raises(UsageError, match="names no column: write FIELD=COLUMN"):
        pairs_of(text)


def test_a_file_of_a_days_folder_that_is_read_by_hand_arrived_on_that_day(tmp_path):
    for day in ("2026-11-20", "2026-11-21"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "a.gz").write_bytes(b"x")
    files = list_files(str(tmp_path))
    assert [f.arrival_day for f in files] == [None, None]
    assert [f.arrival_day for f in dated(files, path=f"{tmp_path}/{{day}}/*.gz")] == ["2026-11-20", "2026-11-21"]
    assert dated(files, path=f"{tmp_path}/*/*.gz") == files
    assert dated(files, path=f"{tmp_path}/elsewhere/{{day}}/*.gz") == files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ingest", "--source", "x.csv", "--corpus", "c", "--format", "csv"], "no configuration: pass --config"),
        (["inspect", "x.csv", "--columns", "item"], "'item' names no column"),
        (["inspect", "x.csv", "--columns", "item=sku"], "has no 'sku': it has q, doc"),
        (["inspect", "x.csv", "--format", "xml"], "--format xml: is no format"),
    ],
)
def test_wrong_use_ends_with_two_and_makes_no_store(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HINDCAST_CONFIG", raising=False)
    (tmp_path / "x.csv").write_text("q,doc\njazz,a\n", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        app(arguments, standalone_mode=False)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]
