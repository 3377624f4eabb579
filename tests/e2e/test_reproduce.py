"""A published night again from its manifest: equal, also after housekeeping; else what differs or is gone is named."""

import json
import shutil

import pytest

from jobs.core.tables import Store
from tests.e2e.conftest import hindcast
from tests.e2e.test_tiny_night import RUN


@pytest.fixture
def lived_in(night, tmp_path):
    """A copy of the night's folder, to be damaged."""
    folder = tmp_path / "copy"
    shutil.copytree(night[0], folder)
    return folder, Store(str(folder / "store"))


def reproduce(folder, *options, code):
    done = hindcast("reproduce", RUN, "--config", folder / "hindcast.toml", "--json", *options, code=code)
    return done if isinstance(done, dict) else json.loads(done.stdout.splitlines()[-1])


def test_a_kept_night_is_reproduced_after_housekeeping(lived_in, tmp_path):
    folder, store = lived_in
    config = folder / "hindcast.toml"
    (folder / "store" / "staging" / "killed").mkdir(parents=True)
    done = hindcast("housekeeping", "--config", config, "--retain-days", "1", "--json",
                    environment={"HINDCAST_HOUSEKEEPING__GRACE_HOURS": "0"})  # fmt: skip
    assert done["runs"]["runs"] == [] and not (folder / "store" / "staging" / "killed").exists()
    found = reproduce(folder, "--out", tmp_path / "again", code=(0,))
    assert found["identical"] and found["figures"] > 1000
    assert found["differing"] == found["gone"] == found["changed"] == []
    again = json.loads((tmp_path / "again" / "report.json").read_text())
    assert again["logs"] == store.read_json(f"reports/{RUN}/report.json")["logs"]
    assert (tmp_path / "again" / "index.html").stat().st_size > 10_000
    (log,) = store.documents.list("housekeeping")
    assert store.read_json(f"housekeeping/{log}")["staging"]["folders"] == ["killed"]


def test_other_settings_of_now_do_not_reach_a_past_report(lived_in):
    folder, _ = lived_in
    text = (folder / "hindcast.toml").read_text()
    other = text.replace("simulated = true", "simulated = true\nbootstrap = 100\nseed = 9")
    (folder / "hindcast.toml").write_text(other)
    found = reproduce(folder, code=(0,))
    assert found["identical"]
    names = {c.split(":")[0].removeprefix("hindcast.toml ") for c in found["changed"]}
    assert names == {"report.bootstrap", "report.seed"}


def test_a_changed_label_and_a_vacuumed_version_are_found(lived_in):
    folder, store = lived_in
    path = f"reports/{RUN}/report.json"
    report = store.read_json(path)
    report["logs"]["n_pages"] += 1
    store.write_json(path, report)
    found = reproduce(folder, code=(1,))
    assert [d.split(":")[0] for d in found["differing"]] == ["logs.n_pages"]
    for file in store.files("judgments", version=store.read_json(f"runs/{RUN}/manifest.json")["tables"]["judgments"]):
        (folder / "store").joinpath(file.uri).unlink()
    found = reproduce(folder, code=(1,))
    assert not found["identical"] and any(g.startswith("judgments version") for g in found["gone"])
    assert found["differing"] == ["the report cannot be rebuilt without judgments"]
