"""Names become folders with an identity, or one sentence. Nothing here touches a network."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from eagle_chat import hub, smollm2
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.failures import disk_full
from eagle_chat.fingerprint import file_sha256, weights_sha256
from eagle_chat.weights import find_head, find_target
from eagle_chat.wheel import UnreachableError


def silent(event: Loading) -> None:
    """A watcher that does not look."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("EAGLE_CHAT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def hub_answers(monkeypatch):
    """Makes the hub give a folder or raise; collects the ids asked for."""
    asked: list[str] = []

    def answer_with(answer: Path | Exception) -> list[str]:
        def download(repo: str, progress: object) -> Path:
            asked.append(repo)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(hub, "download", download)
        return asked

    answer_with(AssertionError("the hub was asked"))
    return answer_with


def test_folder_is_taken_as_it_is(model, hub_answers):
    """Catches a local model that is looked up on the hub, or identified by anything but its weights."""
    found = find_target(str(model), silent)
    assert (found.folder, found.name, found.notes) == (model, str(model), ())
    assert found.sha256 == hashlib.sha256(b"weights").hexdigest()


@pytest.mark.parametrize(
    "name", ["./nothing", "~/no-such-folder-here", "/no/such/folder", "a/b/c", "folder/"]
)
def test_missing_folder_is_not_asked_from_the_hub(name, hub_answers):
    """Catches a mistyped path that becomes a confusing network error."""
    with pytest.raises(UsageError, match="There is no folder"):
        find_target(name, silent)


@pytest.mark.parametrize(
    ("removed", "sentence"),
    [
        ("config.json", "holds no config.json"),
        ("model.safetensors", "holds no .safetensors and no .bin"),
        ("tokenizer.json", "has no tokenizer"),
    ],
)
def test_folder_with_something_missing(model, removed, sentence):
    """Catches a traceback from a loader where one sentence says which file is missing."""
    (model / removed).unlink()
    with pytest.raises(UsageError, match=sentence):
        find_target(str(model), silent)


def test_file_instead_of_a_folder(model):
    """Catches `--model …/model.safetensors` reaching a loader."""
    with pytest.raises(UsageError, match="is a file"):
        find_target(str(model / "model.safetensors"), silent)


def test_missing_shard_is_named(model):
    """Catches a half-copied model that fails in the middle of loading."""
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(EagleChatError, match="incomplete: model-00002-of-00002"):
        find_target(str(model), silent)


def test_damaged_index_is_named(model):
    """Catches a JSON traceback for a truncated index."""
    (model / "model.safetensors.index.json").write_text('{"weight_map": ')
    with pytest.raises(EagleChatError, match=r"index\.json is damaged"):
        find_target(str(model), silent)


def test_unknown_word_is_an_unknown_alias(hub_answers):
    """Catches a mistyped alias that is sent to the hub as a model of no owner."""
    with pytest.raises(UsageError, match="did you mean smollm2-135m"):
        find_target("smollm2-135", silent)


def test_alias_and_hub_id_ask_for_the_target(model, hub_answers):
    """Catches an alias that is passed to the hub as it is."""
    asked = hub_answers(model)
    assert find_target("vicuna-7b", silent).name == "vicuna-7b"
    assert find_target("owner/name", silent).name == "owner/name"
    assert asked == ["lmsys/vicuna-7b-v1.3", "owner/name"]


def test_packaged_head_is_found_without_network(hub_answers):
    """Catches a wheel of ours that forgot the head, and a head searched on the hub."""
    found = find_head(None, "smollm2-135m", "eagle2", silent)
    assert found is not None
    assert (found.folder / "config.json").is_file()
    assert found.sha256 == file_sha256(found.folder / "model.safetensors")


def test_heads_by_alias_folder_and_hub_id(model, hub_answers):
    """Catches one of the ways to name a head being lost; a head needs no tokenizer."""
    (model / "tokenizer.json").unlink()
    asked = hub_answers(model)
    assert find_head(None, "llama3-8b", "eagle2", silent) is not None
    assert find_head("llama2-7b-chat", "some/target", "eagle2", silent) is not None
    assert find_head("owner/head", "some/target", "eagle2", silent) is not None
    assert asked == ["yuhuili/EAGLE-LLaMA3-Instruct-8B", "yuhuili/EAGLE-llama2-chat-7B", "owner/head"]
    found = find_head(str(model), "some/target", "eagle2", silent)
    assert found is not None
    assert found.folder == model


def test_no_head_is_none_unless_one_was_asked_for(model, hub_answers):
    """Catches plain methods failing for want of a head, and a named head being ignored silently."""
    assert find_head(None, "smollm2-135m", "pld", silent) is None
    assert find_head(None, str(model), "eagle2", silent) is None
    with pytest.raises(UsageError, match="no head for the method medusa"):
        find_head("llama3-8b", "llama3-8b", "medusa", silent)


def test_default_model_from_the_hub_says_so(model, hub_answers, monkeypatch):
    """Catches other bytes than the head was trained on being used silently, or under the wheel's hash."""
    asked = hub_answers(model)
    monkeypatch.setattr(smollm2, "prepare", raising(UnreachableError("the package index cannot be reached")))
    found = find_target("smollm2-135m", silent)
    assert asked == ["HuggingFaceTB/SmolLM2-135M-Instruct"]
    assert found.sha256 == hashlib.sha256(b"weights").hexdigest()
    assert "came from the hub" in found.notes[0]
    assert len(found.notes) == 1


def test_default_model_from_nowhere_is_one_sentence(hub_answers, monkeypatch):
    """Catches a first start without a network that blames only the place asked last."""
    hub_answers(EagleChatError("The hub cannot be reached."))
    monkeypatch.setattr(smollm2, "prepare", raising(UnreachableError("the package index cannot be reached")))
    with pytest.raises(EagleChatError, match="index cannot be reached, and the hub gave nothing") as caught:
        find_target("smollm2-135m", silent)
    assert "\n" not in str(caught.value)


def test_full_disk_is_not_blamed_on_the_network(hub_answers, monkeypatch, tmp_path):
    """Catches a full disk in the second attempt that is reported as a missing network."""
    full = disk_full("it", tmp_path)
    full.__cause__ = OSError(28, "No space left on device")
    hub_answers(full)
    monkeypatch.setattr(smollm2, "prepare", raising(UnreachableError("the package index cannot be reached")))
    with pytest.raises(EagleChatError, match="disk is full"):
        find_target("smollm2-135m", silent)


def test_identity_of_several_files_does_not_depend_on_order(tmp_path):
    """Catches an identity that changes with the file system's listing order, or ignores a file."""
    (tmp_path / "model-2.safetensors").write_bytes(b"two")
    (tmp_path / "model-1.safetensors").write_bytes(b"one")
    (tmp_path / "other.bin").write_bytes(b"the older format is not what is loaded")
    one, two = (hashlib.sha256(text).hexdigest() for text in (b"one", b"two"))
    lines = f"model-1.safetensors {one}\nmodel-2.safetensors {two}\n"
    assert weights_sha256(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()


def test_blob_of_the_hub_cache_is_not_read(tmp_path):
    """Catches fifteen gigabytes being hashed whose hash is their name."""
    blob = tmp_path / ("ab" * 32)
    blob.write_bytes(b"not what the name says")
    link = tmp_path / "model.safetensors"
    link.symlink_to(Path("..") / tmp_path.name / blob.name)
    assert file_sha256(link) == "ab" * 32


def test_hash_is_remembered_until_the_file_changes(tmp_path, cache):
    """Catches both a hash computed on every start and a stale one."""
    path = tmp_path / "model.bin"
    path.write_bytes(b"aaaa")
    first = file_sha256(path)
    status = path.stat()
    path.write_bytes(b"bbbb")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file_sha256(path) == first  # same size and time: not read again
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert file_sha256(path) == hashlib.sha256(b"bbbb").hexdigest()
    (cache / "hashes.json").write_text("damaged")
    assert file_sha256(path) == hashlib.sha256(b"bbbb").hexdigest()


def raising(error: Exception):
    """A function that raises, whatever it is given."""

    def fail(*args: object, **kwargs: object) -> Path:
        raise error

    return fail
