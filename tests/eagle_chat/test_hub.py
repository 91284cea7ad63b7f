"""The real hub library against a small hub on this machine, and its errors as one sentence each."""

import errno
import hashlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import OfflineModeIsEnabled, XetDownloadError

from eagle_chat import hub, pull
from eagle_chat.base_models import check_chats
from eagle_chat.catalogue import entry
from eagle_chat.errors import EXIT_INTERRUPTED, EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.fingerprint import weights_sha256
from eagle_chat.hub_cache import cached
from eagle_chat.hub_plan import Plan, plan
from eagle_chat.model_facts import known_model
from tests.eagle_chat.conftest import assert_refused

COMMIT = "c" * 40
WEIGHTS = b"w" * 200_000


class Hub(BaseHTTPRequestHandler):
    """Answers for `owner/bin` (older format only), `owner/gated` and nothing else."""

    files = {  # noqa: RUF012 -- never changed
        "config.json": b"{}",
        "pytorch_model.bin": WEIGHTS,
        "training_args.bin": b"no",
        "original/model.safetensors": b"no",
    }

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/owner/gated") or self.path.startswith("/owner/gated"):
            return self._answer(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
        if self.path.startswith("/api/models/owner/broken"):
            return self._answer(418, b"{}")
        if self.path.startswith("/api/models/owner/bin/tree"):
            tree = [self._entry(name, data) for name, data in self.files.items()]
            return self._answer(200, json.dumps(tree).encode())
        if self.path.startswith("/api/models/owner/bin"):
            return self._answer(200, json.dumps({"id": "owner/bin", "sha": COMMIT}).encode())
        name = self.path.replace("/main/", f"/{COMMIT}/").removeprefix(f"/owner/bin/resolve/{COMMIT}/")
        if name in self.files:
            data = self.files[name]
            tag = hashlib.sha256(data).hexdigest()
            return self._answer(200, data, {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'})
        return self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET  # noqa: N815 -- the base class's names

    def _entry(self, name: str, data: bytes) -> dict[str, object]:
        return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing on the test's terminal."""


@pytest.fixture(autouse=True)
def hub_cache(tmp_path, monkeypatch):
    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("EAGLE_CHAT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


@pytest.fixture
def local_hub(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    use_endpoint(monkeypatch, server.server_port)
    yield server
    server.shutdown()
    server.server_close()


def test_older_format_is_fetched_where_there_is_no_other(local_hub, capfd):
    """Catches heads that exist only as .bin, a trainer's leftovers fetched, and bars on the terminal."""
    events: list[Loading] = []
    folder = hub.download("owner/bin", events.append)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "pytorch_model.bin"]
    assert weights_sha256(folder) == hashlib.sha256(WEIGHTS).hexdigest()
    assert events[-1] == Loading("downloading owner/bin", len(WEIGHTS), len(WEIGHTS))
    assert capfd.readouterr() == ("", "")


def test_cached_model_needs_no_network(local_hub, monkeypatch):
    """Catches a start that fails offline although the files are here."""
    folder = hub.download("owner/bin", ignore)
    use_endpoint(monkeypatch, 9)
    assert hub.download("owner/bin", ignore) == folder


@pytest.mark.parametrize(
    ("repo", "kind", "sentence"),
    [
        ("owner/nothing", UsageError, "There is no model owner/nothing"),
        ("owner/gated", EagleChatError, "is gated: accept its licence .* owner/gated, .*`hf auth login`"),
        ("owner/broken", EagleChatError, "answered 418"),
        ("owner/bad--name", UsageError, "is not a hub id"),
    ],
)
def test_answers_become_sentences(local_hub, repo, kind, sentence):
    """Catches the library's paragraphs and links reaching the user, and the wrong exit code."""
    with pytest.raises(EagleChatError, match=sentence) as caught:
        hub.download(repo, ignore)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


def test_no_network(monkeypatch):
    """Catches a traceback where nothing listens."""
    use_endpoint(monkeypatch, 9)
    with pytest.raises(EagleChatError, match="cannot be reached"):
        hub.download("owner/name", ignore)


def test_network_that_swallows_everything(monkeypatch):
    """Catches waiting for ever: the library sets no limit on its first question."""
    monkeypatch.setattr(hub, "ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        use_endpoint(monkeypatch, listener.getsockname()[1])
        with pytest.raises(EagleChatError, match="cannot be reached"):
            hub.download("owner/name", ignore)


def test_offline_mode_is_named(monkeypatch):
    """Catches advice to check the network where the user has switched it off."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(EagleChatError, match="HF_HUB_OFFLINE is set"):
        hub.download("owner/name", ignore)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "disk is full"),
        (XetDownloadError("write failed: No space left on device (os error 28)"), "disk is full"),
        (OfflineModeIsEnabled("off"), "HF_HUB_OFFLINE is set"),
        (ConnectionResetError(104, "reset"), "cannot be reached"),
        (RuntimeError("something\nodd"), "could not be downloaded from the hub: something odd"),
    ],
)
def test_errors_in_the_middle_become_sentences(local_hub, monkeypatch, error, sentence):
    """Catches errors of the transfer itself, which come in many kinds."""

    def fail(*args: object, **kwargs: object) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(EagleChatError, match=sentence) as caught:
        hub.download("owner/bin", ignore)
    assert "\n" not in str(caught.value)


def test_a_token_without_access_is_not_asked_for_again(local_hub, monkeypatch):
    """Catches advice to sign in for an account that lacks the licence, and a token shown."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(EagleChatError, match="with the account of your token") as caught:
        hub.download("owner/gated", ignore)
    assert "hf_secret" not in str(caught.value)


def test_plan_says_what_a_download_brings(local_hub, hub_cache):
    """Catches sizes of files that are not fetched, files here counted again, and a plan that downloads."""
    first = plan("owner/bin")
    assert first == Plan("owner/bin", files=2, size=len(WEIGHTS) + 2, missing=len(WEIGHTS) + 2)
    assert cached("owner/bin") is None
    folder = hub.download("owner/bin", ignore)
    assert plan("owner/bin").missing == 0
    assert cached("owner/bin") == folder
    with pytest.raises(EagleChatError, match="owner/gated is gated"):
        plan("owner/gated")


def test_pull_fetches_after_saying_sizes(local_hub, command):
    """Catches a pull that says nothing before it begins, fetches what is here, or writes data."""
    ran = command("pull", "owner/bin")
    assert (ran.code, ran.out) == (0, "")
    assert "0 MB in 2 files" in ran.err
    assert cached("owner/bin") is not None
    again = command("pull", "owner/bin")
    assert again.code == 0
    assert "already here" in again.err


def test_interrupted_pull_goes_on_later(local_hub, command, monkeypatch):
    """Catches Ctrl+C with a traceback, one that waits for the whole file, and files thrown away."""
    before = pull._stoppable

    def stopped(show, stop):
        stop.set()
        return before(show, stop)

    with monkeypatch.context() as patch:
        patch.setattr(pull, "_stoppable", stopped)
        ran = command("pull", "owner/bin")
    assert ran.code == EXIT_INTERRUPTED
    assert "the same command fetches the rest" in ran.err
    assert "Traceback" not in ran.err
    assert command("pull", "owner/bin").code == 0


def test_base_model_is_told_before_its_weights_are_fetched(local_hub, command, monkeypatch):
    """Catches 16 GB of a model that cannot chat."""
    monkeypatch.setattr(hub, "download", lambda *asked: pytest.fail(f"fetches {asked}"))
    files = Hub.files | {"tokenizer_config.json": b'{"eos_token": "</s>"}'}
    monkeypatch.setattr(Hub, "files", files)
    assert_refused(command("run", "Hi", "--model", "owner/bin"), "no chat template")
    monkeypatch.setattr(Hub, "files", files | {"chat_template.jinja": b"{{ messages }}"})
    check_chats("owner/bin")


def test_size_of_a_model_on_the_hub_is_known_before_its_weights(local_hub, monkeypatch):
    """Catches a hub id that is downloaded before anybody asks whether it fits."""
    shape = entry("llama3-8b").shape
    config = {
        "hidden_size": shape.hidden, "intermediate_size": shape.inner, "num_hidden_layers": shape.layers,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": shape.vocabulary,
    }  # fmt: skip
    monkeypatch.setattr(Hub, "files", {"config.json": json.dumps(config).encode()})
    found = known_model("owner/bin")
    assert found is not None
    assert found.parameters == entry("llama3-8b").parameters
    assert known_model("owner/nothing") is None


def test_pull_needs_room(local_hub, command, monkeypatch):
    """Catches a disk filled to the last byte before anybody is told."""
    monkeypatch.setattr(pull.shutil, "disk_usage", lambda folder: SimpleNamespace(free=100))
    ran = command("pull", "owner/bin")
    assert ran.code == 1
    assert "eagle-chat cache" in ran.err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("llama3-8B", "did you mean llama3-8b"), ("owner/nothing", "There is no model owner/nothing")],
)
def test_pull_of_nothing(local_hub, command, name, sentence):
    """Catches a traceback for a name that nobody has."""
    assert_refused(command("pull", name), sentence)


def test_pull_offline_is_one_sentence(command, monkeypatch):
    """Catches paragraphs of a library where there is no network."""
    use_endpoint(monkeypatch, 9)
    ran = command("pull", "qwen3-4b", "--force")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "cannot be reached" in ran.err


def use_endpoint(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """What HF_ENDPOINT does when the library is imported."""
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    endpoint = f"http://127.0.0.1:{port}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + template)


def ignore(event: Loading) -> None:
    """A watcher that does not look."""
