"""Settings: unknown keys are refused by name, variables override the file, secrets are no settings."""

import pytest

from jobs.core.errors import SettingsError
from jobs.core.settings import load_settings

GOOD = """
store = "store/"
[corpora.tracks]
locales = ["en"]
[[sources]]
name = "web"
corpus = "tracks"
path = "logs/{day}/*.gz"
[judging]
budget_usd = 5
"""


def written(tmp_path, text):
    path = tmp_path / "hindcast.toml"
    path.write_text(text)
    return path


def test_defaults_are_those_of_the_formats(tmp_path):
    s = load_settings(written(tmp_path, GOOD), environment={})
    assert (s.windows.evaluation_days, s.windows.gap_days, s.windows.evidence_days) == (10, 7, 30)
    assert (s.evidence.min_users, s.evidence.top_k, s.evidence.near_duplicate_cosine) == (20, 10, 0.9)
    assert s.judging.judge == "offline-baseline" and s.judging.variants == ("plain", "qri")
    assert s.store_uri == str(tmp_path / "store")
    assert s.path("s3://b/x") == "s3://b/x" and s.path("") == ""


@pytest.mark.parametrize(
    ("text", "named", "why"),
    [
        ("stoer = 'x'", "stoer", "a misspelt key at the top"),
        ("[evidence]\nmin_user = 3", "evidence.min_user", "a misspelt key in a table"),
        ("[evidence]\nmin_users = 0", "evidence.min_users", "a value out of range"),
        ("[judging]\njudge = 'gpt'", "judging.judge", "a value that is not offered"),
        ("[corpora.'a/b']", "a/b", "a corpus name that could leave its folder"),
        ("[[sources]]\nname='a'\ncorpus='c'\npath='x'", "no [corpora.NAME] table", "a source of an undeclared corpus"),
        ("store = ", "no TOML", "not TOML at all"),
        ("store = ''", "store", "an empty store would be the root of the file system"),
    ],
)
def test_what_is_no_setting_is_named(tmp_path, text, named, why):
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, text), environment={})
    assert named in str(caught.value), why


def test_variables_override_and_secrets_do_not(tmp_path):
    environment = {
        "HINDCAST_EVIDENCE__MIN_USERS": "3",
        "HINDCAST_JUDGING__MODEL": "m",
        "HINDCAST_USER_SALT": "s",
        "X": "1",
    }
    s = load_settings(written(tmp_path, GOOD), environment=environment)
    assert s.evidence.min_users == 3 and s.judging.model == "m" and s.judging.budget_usd == 5
    assert "'s'" not in repr(s)
    with pytest.raises(SettingsError, match=r"evidence\.min_usres"):
        load_settings(written(tmp_path, GOOD), environment={"HINDCAST_EVIDENCE__MIN_USRES": "3"})


def test_a_mistyped_secret_is_not_repeated(tmp_path):
    with pytest.raises(SettingsError, match="apikey") as caught:
        load_settings(written(tmp_path, GOOD), environment={"HINDCAST_APIKEY": "sk-very-secret"})
    assert "sk-very-secret" not in str(caught.value)


def test_the_hash_follows_what_changes_results_only(tmp_path):
    a = load_settings(written(tmp_path, GOOD), environment={})
    b = load_settings(written(tmp_path, GOOD), environment={}, store="elsewhere/")
    c = load_settings(written(tmp_path, GOOD), environment={}, evidence={"min_users": 21})
    assert a.sha256() == b.sha256() != c.sha256()


def test_a_missing_file_says_what_to_pass(tmp_path):
    with pytest.raises(SettingsError, match="--config"):
        load_settings(tmp_path / "none.toml", environment={})


@pytest.mark.parametrize("text", ['"off"', "off"])
def test_a_gate_can_be_switched_off_where_there_is_no_null(text):
    gates = load_settings(None, environment={"HINDCAST_REPORT__GATES__MIN_SPEARMAN": text}).report.gates
    assert gates.min_spearman is None
    assert gates.max_unscored == 0.02


@pytest.mark.parametrize("value", [-1.01, 1.5, float("nan"), float("inf")])
def test_a_gate_outside_of_its_figures_range_is_refused(value):
    with pytest.raises(SettingsError, match=r"report\.gates\.min_spearman"):
        load_settings(None, environment={}, report={"gates": {"min_spearman": value}})


@pytest.mark.parametrize(
    ("text", "named", "why"),
    [
        ("[pages]\nusers = [400, 20]", ("pages.users", "[20, 400]"), "a range that no query can lie in"),
        ("[pages]\nusers = [0, 20]", ("pages.users", "0"), "a query that nobody issued"),
        ("[pages]\nusers = [20]", ("pages.users",), "half a range"),
        ("[pages]\nstrata = ['locale', 'locale']", ("pages.strata", "locale stands twice"), "a stratum twice"),
        ("[judging]\nablation_weekday = 'sonntag'", ("judging.ablation_weekday", "sonntag", "'sunday'"), "no weekday"),
        ("[judging]\nvariants = []", ("judging.variants",), "no variant at all"),
        ("[judging]\nvariants = ['qri', 'plain', 'qri']", ("judging.variants", "qri stands twice"), "a variant twice"),
        ("[judging]\nvariants = ['qry']", ("judging.variants", "qry", "'qri'"), "an unknown variant"),
        ("[judging]\nitem_fields = ['genre', 'genre']", ("judging.item_fields", "genre stands twice"), "a field twice"),
        ("[judging]\nbudget_usd = -1", ("judging.budget_usd", "-1"), "a negative budget"),
        ("[judging]\nbudget_usd = nan", ("judging.budget_usd", "nan"), "a budget that is no number"),
        ("[judging]\nbudget_usd = inf", ("judging.budget_usd", "inf"), "a budget without an end"),
        ("[judging]\nbudget_usd = 'none'", ("judging.budget_usd", "none"), "a text that is no budget"),
        ("[report.gates]\nmin_spearman = 2", ("report.gates.min_spearman", "2"), "no correlation"),
        ("[report.gates]\nmax_unscored = -0.1", ("report.gates.max_unscored", "-0.1"), "no share"),
        ("[judging]\ntemperature = inf", ("judging.temperature", "inf"), "every number is finite"),
        ("[evidence]\nnear_duplicate_cosine = nan", ("evidence.near_duplicate_cosine", "nan"), "in every table"),
        ("[corpora.c]\n[[sources]]\nname='a'\ncorpus='c'\npath='x'\ntime_zone='Mars/Base'",
         ("time_zone", "Mars/Base", "'UTC'"), "a zone that nobody knows"),
        ("[corpora.c]\n[[sources]]\nname='a'\ncorpus='c'\npath='x'\ntime_zone='../etc'", ("time_zone",), "a path"),
    ],
)  # fmt: skip
def test_values_that_cannot_work_are_named_with_the_way_out(tmp_path, text, named, why):
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, text), environment={})
    assert caught.value.exit_code == 2
    assert [word for word in named if word not in str(caught.value)] == [], f"{why}: {caught.value}"


def test_a_budget_can_be_switched_off_and_weekdays_be_written_in_any_case(tmp_path):
    s = load_settings(written(tmp_path, "[judging]\nbudget_usd = 'off'\nablation_weekday = 'Monday'"), environment={})
    assert (s.judging.budget_usd, s.judging.ablation_weekday) == (None, "monday")
