"""What `make demo` shows and prints, from canned output and a canned report."""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs.core.settings import load_settings

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "setup"))

import demo  # noqa: E402 - set-up is no package

START = "2026-11-20T01:00:00Z [info] [DAG TEST] starting task_id={} map_index={} [airflow] loc=dag.py:1501\n"
END = "2026-11-20T01:00:09Z [info] [DAG TEST] end task task_id={} map_index={} [airflow] loc=dag.py:1563\n"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    times = [0.0]
    monkeypatch.setattr(demo.time, "monotonic", lambda: times[0])
    return times


def test_a_task_is_shown_with_its_seconds(clock: list[float], capsys: pytest.CaptureFixture) -> None:
    display = demo.Display()
    display.see(START.format("evidence.build", -1))
    clock[0] = 2.5
    display.see(END.format("evidence.build", -1))
    assert capsys.readouterr().out.split() == ["evidence.build", "2.5", "s"]


def test_a_long_task_gives_a_sign_of_life_ever_more_rarely(clock: list[float], capsys: pytest.CaptureFixture) -> None:
    display = demo.Display()
    display.see(START.format("judging.run", 3))
    for second in range(1, 61):
        clock[0] = float(second)
        display.see("")
    shown = [line.split("…")[1].split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["6", "13", "27", "55"], "never silent for longer than it has already run"


def _script(folder: Path, text: str) -> subprocess.Popen:
    return subprocess.Popen(["sh", "-c", text], text=True, stdout=subprocess.PIPE, start_new_session=True, cwd=folder)


AUDIT_FAILS = "echo '[DAG TEST] starting task_id=cards.audit map_index=-1'; echo 'marked as UP_FOR_RETRY'; sleep 60"


@pytest.mark.parametrize(("text", "fault"), [("echo all well", ""), (AUDIT_FAILS, "cards.audit failed")])
def test_a_failed_task_ends_the_demo_instead_of_being_retried(tmp_path: Path, text: str, fault: str) -> None:
    with (tmp_path / "log").open("w") as copy:
        assert demo._follow(_script(tmp_path, text), copy) == fault
    assert (tmp_path / "log").read_text()


def test_a_run_that_ignores_the_signal_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "GRACE_S", 0.3)
    process = _script(tmp_path, "trap '' TERM; echo ready; while true; do sleep 1; done")
    assert process.stdout.readline() == "ready\n"
    demo._end(process)
    assert process.wait(timeout=10) == -9


def test_the_headline_states_undefined_values_with_their_reason() -> None:
    known = {"value": 0.5, "low": 0.4, "high": 0.6}
    unknown = {"value": None, "low": None, "high": None, "reason": "constant labels"}
    plain, qri = {"all": {"n": 9, "spearman": unknown}}, {"all": {"n": 1100, "spearman": known}}
    part = {"n_pages": 1200, "variants": {"plain": plain, "qri": qri}}
    report = {
        "run": {"judge": "offline-baseline"},
        "logs": part,
        "human": part,
        "launch": {"variants": {"qri": {"half_credit": {"value": 0.7}, "n": 600}}},
        "leakage": {"violations": 0, "checked": 12345},
    }
    text = demo.headline(report)
    expected = ["Simulated log", "offline-baseline", "1,200 pages", "-  (constant labels)"]
    expected += ["(0.400 to 0.600)  on 1,100"]
    expected += ["0.700  of 600 queries", "0 violations in 12,345"]
    assert [one for one in expected if one not in text] == []


def test_the_local_model_is_asked_for_at_most_a_hundred_pages() -> None:
    settings = load_settings(None, environment=demo.LOCAL_MODEL)
    assert settings.judging.judge == "local"
    assert 2 * settings.judging.max_pages <= 100, "the night's and the launch's"
    assert settings.judging.ablation_weekday == ""


@pytest.mark.parametrize("target", ["demo", "test", "test-ops"])
def test_make_runs_it_without_a_network(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "setup/no_network.py" in done.stdout
