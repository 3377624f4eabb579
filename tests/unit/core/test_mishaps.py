"""Mishaps of the machine become a sentence with a way out, whatever library reports them; other errors stay errors."""

import sqlite3

import pytest
from py4j.protocol import Py4JNetworkError

from jobs.core import cli
from jobs.core.mishaps import told
from jobs.core.settings import Spark
from jobs.core.spark import SparkProvider

MISHAPS = [
    (OSError(28, "No space left on device"), "the disk is full"),
    (sqlite3.OperationalError("database or disk is full"), "the disk is full"),
    (Exception("Generic LocalFileSystem error: write failed (os error 28)"), "the disk is full"),
    (Exception("Job aborted\nCaused by: java.io.IOException: No space left on device\n\tat x"), "the disk is full"),
    (Exception("Job aborted due to stage failure: Python worker exited unexpectedly (crashed)"), "a worker of Spark"),
    (Py4JNetworkError("Answer from Java side is empty"), "Spark's JVM has ended"),
    (Py4JNetworkError("Error while sending or receiving"), "Spark's JVM has ended"),
]


@pytest.mark.parametrize(("error", "begins"), MISHAPS)
def test_a_mishap_is_one_sentence_with_a_way_out(error, begins):
    sentence = told(error)
    assert sentence.startswith(begins) and "again" in sentence and "\n" not in sentence


def test_a_mishap_is_found_behind_what_it_caused(capsys):
    def fails():
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise ValueError("cannot write the page") from error

    with pytest.raises(SystemExit) as ended, cli.exits():
        fails()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("hindcast: the disk is full")


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("x"), RuntimeError("workers of the world")])
def test_what_is_no_mishap_keeps_its_traceback(error):
    assert told(error) is None
    with pytest.raises(type(error)), cli.exits():
        raise error


def test_an_error_that_refers_to_itself_ends():
    error = ValueError("a")
    error.__cause__ = ValueError("b")
    error.__cause__.__context__ = error
    assert told(error) is None


GONE = [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "x")]


@pytest.mark.parametrize("error", GONE)
def test_a_jvm_that_is_gone_when_all_is_done_fails_nothing(error, tmp_path):
    class Gone:
        def stop(self):
            raise error

    spark = SparkProvider(Spark(), store_uri=str(tmp_path))
    spark._session = Gone()
    spark.stop()
    assert not spark.started
