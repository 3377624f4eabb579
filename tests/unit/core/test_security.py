"""What SECURITY.md claims of the code: paths stay inside the store, names are checked, nothing is run or unpickled."""

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from typer.main import get_command

from jobs import launch, night
from jobs.cards import job as cards
from jobs.core.errors import UsageError
from jobs.core.settings import load_settings
from jobs.core.storage import Files
from jobs.core.tables import Store
from jobs.evidence import job as evidence
from jobs.impressions import job as impressions
from jobs.judging import job as judging
from jobs.pages import job as pages
from jobs.propensity import job as propensity
from jobs.reports import job as reports
from jobs.reproduce import reproduce_app
from jobs.skills.skill import skill_id_of

ROOT = Path(__file__).resolve().parents[3]
LEAVING = ["..", "../x", "a/../../x", "a/..", "/etc/passwd", "a/../b", "nul\x00x", "../store-beside/x"]
NAMES = ["../x", "..", "a/b", "/etc", "x\n", "a b", "é", "a\x00", "-x", ".hid", "%2e%2e", "a;drop", "$(id)", "`id`", ""]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "store-beside").mkdir()
    (tmp_path / "x").write_text("outside")
    return Files(str(tmp_path / "store"))


@pytest.mark.parametrize("path", LEAVING)
def test_no_path_leaves_the_store(files, path, tmp_path):
    acts = (files.uri, files.exists, files.read_bytes, files.size, files.list, files.delete, files.read_json,
            lambda p: files.write_bytes(p, b"x"), lambda p: files.write_json(p, {}))  # fmt: skip
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    for act in acts:
        with pytest.raises(UsageError, match="leaves the store"):
            act(path)
    if ".." in path:
        with pytest.raises(UsageError, match="leaves the store"):
            files.lock(path, timeout_s=0).__enter__()
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before
    assert (tmp_path / "x").read_text() == "outside"


@pytest.mark.parametrize("path", ["", ".", "/.".strip("/"), "./."])
def test_the_store_itself_is_never_deleted(files, path):
    files.write_json("kept.json", {})
    with pytest.raises(UsageError, match="the whole store"):
        files.delete(path)
    assert files.exists("kept.json")


def config(tmp_path):
    path = tmp_path / "in" / "hindcast.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text('store = "store/"\n[corpora.tracks]\nlocales = ["en"]\n')
    return str(path)


START = ["--start", "2026-12-01", "--ranker-a", "a", "--ranker-b", "b"]
COMMANDS = {
    "launch forecast --id": (launch.app, ["forecast", *START], "--id"),
    "launch outcome --id": (launch.app, ["outcome", "--outcomes", "x.jsonl"], "--id"),
    "launch register --id": (launch.app, ["register", *START], "--id"),
    "publish --run": (night.publish_app, [], "--run"),
    "publish --launch": (night.publish_app, [], "--launch"),
    "evidence build --run": (evidence.app, ["build"], "--run"),
    "propensity fit --launch": (propensity.app, ["fit"], "--launch"),
    "pages build --run": (pages.app, ["build"], "--run"),
    "cards build --run": (cards.app, ["build"], "--run"),
    "cards audit --launch": (cards.app, ["audit"], "--launch"),
    "judging plan --run": (judging.app, ["plan"], "--run"),
    "judging commit --launch": (judging.app, ["commit"], "--launch"),
    "reports outcome --launch": (reports.app, ["outcome"], "--launch"),
    "impressions check --run": (impressions.app, ["check"], "--run"),
    "reproduce": (reproduce_app, [], None),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("value", NAMES)
def test_commands_refuse_names_that_could_be_paths(name, value, tmp_path):
    app, words, option = COMMANDS[name]
    file = config(tmp_path)
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    for bad in {value, f"night-{value}", f"launch-{value}"} if option in ("--run", None) else {value}:
        arguments = [*words, *([f"{option}={bad}"] if option else ["--", bad])]
        given = [*arguments, f"--config={file}"] if option else [f"--config={file}", *arguments]
        done = CliRunner().invoke(get_command(app), given)
        assert done.exit_code == 2, (bad, done.output)
        assert done.exception is None or isinstance(done.exception, SystemExit), "a sentence, no traceback"
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before, "nothing was written anywhere"


@pytest.mark.parametrize("value", [n for n in NAMES if n])
@pytest.mark.parametrize("where", ["corpora", "sources"])
def test_settings_refuse_names_that_could_be_paths(tmp_path, where, value):
    file = tmp_path / "hindcast.toml"
    name = json.dumps(value)
    source = f'[corpora.a]\n[[sources]]\nname = {name}\ncorpus = "a"\npath = "x"\n'
    file.write_text(f"[corpora.{name}]\n" if where == "corpora" else source)
    with pytest.raises(UsageError):
        load_settings(file, environment={})


@pytest.mark.parametrize("value", ["../x", "", "nope", "impressions/../../x"])
def test_only_declared_tables_have_a_place(tmp_path, value):
    with pytest.raises(KeyError):
        Store(str(tmp_path)).table_uri(value)


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "..", "a/b\\c", "Ünïcode / Näme", "x" * 500, "CON", "\x00"])
def test_a_models_name_for_a_skill_is_one_plain_folder(name):
    """A model's reply names skills, and a skill is a folder."""
    made = skill_id_of(name)
    assert len(made) <= 64 and set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_page_ids_never_become_paths(tmp_path):
    """Pages, judgments and truths of strangers, their ids as hostile as can be: a report of ordinary files."""
    ids = ["../../evil", "/etc/evil", "a/b", "<img src=x onerror=alert(1)>", "..", "x" * 300]
    out, lines = tmp_path / "out", {"pages": [], "judgments": [], "truth": []}
    for n, page in enumerate(ids):
        key = f"{n:016x}"
        items = [{"item_id": f"../{page}", "rank": 1, "title": page, "type": ""}]
        lines["pages"].append({"page_id": page, "query_key": key, "query": page, "items": items, "corpus": "c"})
        lines["truth"].append({"page_id": page, "query_key": key, "truth": n / 10})
        for variant in ("plain", "qri"):
            label = (n % 3) / 2
            lines["judgments"].append({"page_id": page, "query_key": key, "variant": variant, "label": label})
    for name, rows in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = [f"--{name}={tmp_path / name}.jsonl" for name in lines]
    done = CliRunner().invoke(get_command(reports.app), ["build", *given, f"--out={out}", "--samples=100"])
    assert done.exit_code == 0, done.output
    others = [p for p in tmp_path.rglob("*") if p.is_file() and out not in p.parents and p.suffix != ".jsonl"]
    assert others == [] and not [p for p in out.rglob("*") if "evil" in p.name or "<" in p.name]
    assert "<img src=x" not in (out / "index.html").read_text()


# --- what no line of the code does ---

FOLDERS = ("jobs", "schemas", "dags", "triggers", "setup", "docker")
CODE = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))
FORBIDDEN = {
    "eval": "runs text", "exec": "runs text", "compile": "runs text", "__import__": "runs text",
    "os.system": "a shell", "os.popen": "a shell", "subprocess.getoutput": "a shell",
    "pickle.load": "unpickles", "pickle.loads": "unpickles", "joblib.load": "unpickles", "cloudpickle.load": "same",
    "torch.load": "unpickles", "pd.read_pickle": "unpickles", "yaml.load": "builds objects", "yaml.unsafe_load": "same",
    "marshal.loads": "runs text", "shelve.open": "unpickles", "tempfile.mktemp": "a race",
}  # fmt: skip


def calls(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_nothing_is_run_unpickled_or_given_to_a_shell():
    found = []
    for path in CODE:
        for name, node in calls(path):
            risky = FORBIDDEN.get(name)
            shell = any(k.arg in ("shell", "allow_pickle") and getattr(k.value, "value", True) for k in node.keywords)
            if risky or shell:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    assert found == [] and len(CODE) > 200


SQL = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "DESCRIBE ", "DROP ", "CREATE TABLE", "MERGE ")
CHECKED = {
    "jobs/judging/labels.py": "only question marks, one a key",
    "jobs/impressions/job.py": "the parts of a catalog name, words by _CATALOG_NAME and quoted",
}
"""Statements that are put together, and of what."""


def test_no_value_is_put_into_a_statement():
    found = {}
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr) and ast.unparse(node)[2:].startswith(SQL):
                found[str(path.relative_to(ROOT))] = ast.unparse(node)
    assert set(found) == set(CHECKED)
    assert found["jobs/judging/labels.py"].count("{") == 1 and "{marks}" in found["jobs/judging/labels.py"]


@pytest.mark.parametrize("name", ["a.b`; drop", "a", "a.b.c.d", "a.`b`", "1a.b", "a.b ", "a.b\n", "a..b", "a.b;c"])
def test_a_catalog_name_is_words_and_dots(name):
    assert not impressions._CATALOG_NAME.fullmatch(name)
