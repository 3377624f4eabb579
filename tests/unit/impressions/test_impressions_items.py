"""Catalogues: new entries, changed ones as new versions, refused ones with their reason."""

import json
import re
from datetime import date

import pytest

from jobs.core.errors import InputError
from jobs.core.tables import Store
from jobs.impressions.inputs import list_files
from jobs.impressions.items import ALWAYS, app, import_items

DAY = date(2026, 11, 20)


def catalogue(tmp_path, *rows):
    path = tmp_path / "items.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), encoding="utf-8")
    return list_files(str(path))


def item(n, title="Jazz", **more):
    return {
        "corpus": "tracks",
        "item_id": n,
        "title": title,
        "type": "track",
        "metadata": {"artist": "A", "year": 1959},
        **more,
    }


def test_a_changed_entry_becomes_a_version_and_the_old_one_stays(tmp_path):
    store = Store(str(tmp_path / "store"))
    import_items(store, corpus="tracks", files=catalogue(tmp_path, item(1), item("2")), day=DAY)
    told = import_items(
        store, corpus="tracks", files=catalogue(tmp_path, item("1"), item(2, "Blues"), item(3)), day=DAY
    )
    assert (told["new"], told["changed"], told["unchanged"]) == (1, 1, 1)
    rows = store.read("items").sort("item_id", "valid_from")
    assert rows.select("item_id", "title", "valid_from").rows() == [
        ("1", "Jazz", ALWAYS), ("2", "Jazz", ALWAYS), ("2", "Blues", DAY), ("3", "Jazz", ALWAYS)
    ]  # fmt: skip
    assert json.loads(rows["metadata"][0]) == {"artist": "A", "year": "1959"}


def test_the_same_catalogue_again_changes_no_version(tmp_path):
    store = Store(str(tmp_path / "store"))
    files = catalogue(tmp_path, item(1), item(2))
    import_items(store, corpus="tracks", files=files, day=DAY)
    version = store.version("items")
    assert import_items(store, corpus="tracks", files=files, day=DAY)["unchanged"] == 2
    assert store.version("items") == version


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"item_id": 1', "malformed"),
        (item(None), "missing_item"),
        (item(1.5), "bad_item"),
        (item(1, " "), "missing_title"),
        (item(1, corpus="podcasts"), "other_corpus"),
        (item(1, metadata=[1]), "bad_metadata"),
    ],
)
def test_a_bad_row_is_counted_with_its_reason(tmp_path, row, reason):
    good = [item(n) for n in range(10, 40)]
    told = import_items(Store(str(tmp_path / "s")), corpus="tracks", files=catalogue(tmp_path, row, *good), day=DAY)
    assert told["rejected"] == {reason: 1}
    assert told["rows_in"] == told["accepted"] + told["duplicates"] + sum(told["rejected"].values())


def test_a_catalogue_of_bad_rows_is_refused_and_nothing_is_written(tmp_path):
    store = Store(str(tmp_path / "s"))
    with pytest.raises(InputError, match="2 of 3 items were refused"):
        import_items(store, corpus="tracks", files=catalogue(tmp_path, "{", "[", item(1)), day=DAY)
    assert store.version("items") is None


def test_the_last_of_two_entries_of_one_item_wins_and_is_counted(tmp_path):
    store = Store(str(tmp_path / "s"))
    told = import_items(store, corpus="tracks", files=catalogue(tmp_path, item(1), item(1, "Blues")), day=DAY)
    assert told["duplicates"] == 1
    assert store.read("items")["title"].to_list() == ["Blues"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "tracks"], "no configuration: pass --config"),
        (
            ["--corpus", "other", "--config", "hindcast.toml"],
            r"--corpus other: .* declares tracks: add a \[corpora.other\]",
        ),
        (["--config", "hindcast.toml"], "pass --source FILE and --corpus NAME"),
    ],
)
def test_a_catalogue_of_nobody_is_wrong_use_and_makes_no_store(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HINDCAST_CONFIG", raising=False)
    catalogue(tmp_path, item(1))
    (tmp_path / "hindcast.toml").write_bytes(b'\xef\xbb\xbfstore = "store/"\n[corpora.tracks]\n')
    with pytest.raises(SystemExit) as caught:
        app(["import", "--source", "items.jsonl", *arguments], standalone_mode=False)
    assert caught.value.code == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "store").exists()


def test_ids_of_a_catalogue_join_with_those_of_a_log(tmp_path):
    store = Store(str(tmp_path / "store"))
    rows = [item(7.0), item("8.0"), '{"item_id": 9007199254740993, "title": "x"}']
    import_items(store, corpus="tracks", files=catalogue(tmp_path, *rows), day=DAY)
    assert set(store.read("items")["item_id"]) == {"7", "8", "9007199254740993"}
