"""Before anything is judged: an endpoint that is down at the probe, a budget without a price, and the printed plan."""

import asyncio
import json

import pytest
from tenacity import wait_random_exponential

from jobs.core.errors import InputError, UsageError
from jobs.core.progress import Progress
from jobs.judging import endpoint as asked
from jobs.judging import limits
from jobs.judging.failures import Unanswered
from jobs.judging.file_mode import plan_files, run_files
from jobs.judging.planning import Plan, plan_text
from jobs.judging.sitting import is_private
from tests.unit.judging.scripted import GOOD, completion, endpoint
from tests.unit.judging.test_file_mode import Room


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "PAUSES_S", (0.01, 0.05))
    monkeypatch.setattr(asked, "_BACK_OFF", wait_random_exponential(multiplier=0.001, max=0.01))
    return Room(tmp_path)


def down_at_first(failures, answer):
    """A script for the probe alone: `failures` times `answer`, then good ones; later questions are answered."""
    seen = {"probes": 0}

    def script(body, nth):
        if "probe" not in body["messages"][-1]["content"]:
            return 200, completion(GOOD)
        seen["probes"] += 1
        return answer if seen["probes"] <= failures else (200, completion(GOOD))

    return script, seen


def test_a_question_that_is_alone_waits_briefly_between_tries(monkeypatch):
    """Ten failures open the breaker; with the back-off of many calls that would take a lone probe minutes."""
    waited = []

    class Failing(asked.Endpoint):
        async def _post(self, content):
            raise TimeoutError

    async def nap(seconds):
        waited.append(seconds)

    async def ask():
        async with Failing(asked.EndpointSettings(base_url="http://127.0.0.1:9/v1", max_outage_s=0.01)) as endpoint:
            await endpoint.ask({"messages": []}, patient=True)

    monkeypatch.setattr(asked._RETRY, "sleep", nap)
    with pytest.raises(Unanswered, match="stayed down"):
        asyncio.run(ask())
    assert len(waited) >= limits.FAILURES_TO_OPEN
    assert max(waited) <= asked.PATIENT_WAIT_S


@pytest.mark.parametrize(
    ("why", "answer"),
    [
        ("dropped connections", ("drop", None)),
        ("server errors", (500, {})),
        ("overload", (503, {})),
        ("busy", (429, {})),
    ],
)
def test_an_outage_at_the_probe_is_waited_for(room, why, answer):
    script, seen = down_at_first(25, answer)
    with endpoint(script, probes=True) as (url, _):
        summary, rows = room.judge(url, slots=2)
    assert seen["probes"] == 26
    assert [row["label"] for row in rows] == [0.5] * 4, why
    assert summary["unscored"] == {}


def test_an_endpoint_that_stays_down_at_the_probe_gives_every_page_its_reason(room):
    with endpoint(lambda body, nth: ("drop", None), probes=True) as (url, calls):
        summary, rows = room.judge(url, max_outage_s=0.3)
        assert len(calls) > limits.FAILURES_TO_OPEN
        assert summary["unscored"] == {"endpoint": 4}
        assert {row["reason"] for row in rows} == {"endpoint"}
    with endpoint() as (url, calls):
        summary, rows = room.judge(url)
    assert summary["unscored"] == {}, "nothing of the outage is remembered"


PRICED = '[models]\n"m" = { input = 1.0, output = 1.0 }\n'


@pytest.mark.parametrize(
    "url", ["", "https://api.example.com/v1", "https://8.8.8.8/v1", "http://model.example.org:80/v1"]
)
def test_a_budget_that_cannot_be_kept_is_refused_before_anything_is_sent(room, monkeypatch, url):
    monkeypatch.setenv("HINDCAST_API_KEY", "k")
    with pytest.raises(
        UsageError, match=r"price of model 'm' is not known.*budget_usd = 20.*--prices.*--budget-usd off"
    ):
        run_files(room.job(url), Progress(None))
    assert not (room.folder / "out.jsonl").exists()
    prices = room.folder / "prices.toml"
    prices.write_text(PRICED)
    for over in ({"prices": str(prices)}, {"budget_usd": "off"}):
        room.job(url, **over).sitting(room.job(url, **over).judging, Progress(None)).check_budget()


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://127.0.0.1:8000/v1", True), ("http://[::1]:8000/v1", True), ("http://localhost/v1", True),
        ("http://10.1.2.3/v1", True), ("http://192.168.0.9/v1", True), ("http://vllm:8000/v1", True),
        ("http://gpu.corp.internal/v1", True), ("http://box.local/v1", True),
        ("http://llm.default.svc.cluster.local/v1", True),
        ("https://api.openai.com/v1", False), ("http://8.8.8.8/v1", False), ("http://notlocalhost.com/v1", False),
        ("", False),
    ],
)  # fmt: skip
def test_endpoints_of_ones_own(url, own):
    assert is_private(url) == own


def test_an_own_endpoint_needs_no_price_and_says_that_it_counts_as_free(room, capsys):
    import sys

    with endpoint() as (url, _):
        run_files(room.job(url), Progress(sys.stderr))
    assert "no price is known for 'm'" in capsys.readouterr().err


def test_a_plan_names_pages_calls_cached_calls_tokens_cost_and_time(room):
    prices = room.folder / "prices.toml"
    prices.write_text(PRICED)
    with endpoint() as (url, _):
        room.judge(url, variants=["plain"])
        found = plan_files(room.job(url, prices=str(prices)), Progress(None))
    text = plan_text(found)
    assert (found["pages"], found["calls"], found["cached_calls"]) == (2, 1, 2)
    for said in (
        "pages     2",
        "calls     1, and 2 answered from the label store",
        "USD (budget 20.00 USD)",
        "time      about",
    ):
        assert said in text, text
    assert f"about {found['tokens_in']:,} in" in text
    assert json.loads(json.dumps(found)) == found


def test_plans_without_calls_or_prices_are_read_too(room):
    assert "nothing" in plan_text(plan_files(room.job("", judge="offline-baseline"), Progress(None)))
    unknown = Plan(calls=3, unpriced=["m"]).summary(seconds=2)
    assert "unknown: no price of m (no budget)" in plan_text(unknown)
    assert "short" in plan_text(Plan(calls=3, cost_usd=9).summary(budget_usd=1))


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_pages_is_an_error(room, content):
    (room.folder / "pages.jsonl").write_text(content)
    for act in (run_files, plan_files):
        with pytest.raises(InputError, match=r"pages\.jsonl holds no page"):
            act(room.job("http://127.0.0.1:9/v1"), Progress(None))
