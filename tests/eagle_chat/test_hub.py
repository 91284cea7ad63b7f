"""The real hub library against a small hub on this machine, and its errors as one sentence each."""

import errno
import hashlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import OfflineModeIsEnabled, XetDownloadError

from eagle_chat import hub
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.fingerprint import weights_sha256

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
        name = self.path.removeprefix(f"/owner/bin/resolve/{COMMIT}/")
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
        ("owner/gated", EagleChatError, "is gated: accept its licence .* `hf auth login`"),
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


def use_endpoint(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """What HF_ENDPOINT does when the library is imported."""
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    endpoint = f"http://127.0.0.1:{port}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + template)


def ignore(event: Loading) -> None:
    """A watcher that does not look."""
