"""The local judge is refused with a way out before anything is started."""

import pytest

from jobs.core.errors import MachineError
from jobs.core.settings import Judging
from jobs.judging import local


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(local.util, "find_spec", lambda name: object() if name == "xllamacpp" else None)


def test_without_the_extra_the_way_out_is_named(monkeypatch):
    monkeypatch.setattr(local.util, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match="make setup-local-llm"), local.serving(Judging(judge="local"), say=print):
        pytest.fail("started")


def test_a_model_file_that_is_not_there_is_named(installed):
    with pytest.raises(MachineError, match=r"'/no/such\.gguf'"):
        local.find_model("/no/such.gguf")
    with pytest.raises(MachineError, match="packaged local model"):
        local.find_model("")


def test_short_memory_is_refused(tmp_path):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"x" * 1000)
    local.check_memory(model, available_bytes=2**30)
    with pytest.raises(MachineError, match="use a smaller model"):
        local.check_memory(model, available_bytes=2**20)


def test_a_file_that_is_no_model_is_refused_and_leaves_no_process(installed, tmp_path, monkeypatch):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"no model")
    started = []
    real = local.subprocess.Popen
    monkeypatch.setattr(local.subprocess, "Popen", lambda *a, **k: started.append(real(*a, **k)) or started[-1])
    with (
        pytest.raises(MachineError, match="could not be served"),
        local.serving(Judging(judge="local", model_path=str(model)), say=print),
    ):
        pytest.fail("started")
    assert started[0].poll() is not None


@pytest.mark.parametrize(
    "judging", [Judging(judge="openai", model="m"), Judging(judge="local", base_url="http://h/v1")]
)
def test_other_judges_are_left_alone(judging):
    with local.serving(judging, say=print) as same:
        assert same is judging
