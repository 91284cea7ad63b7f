"""A real HTTP server in a thread that speaks like an OpenAI-compatible one, and misbehaves on request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECES = ["The", " sky", " is blue", "."]
MODELS = {"object": "list", "data": [{"id": "llama", "max_model_len": 4096}]}

Body = Iterator[bytes]


@dataclass
class Script:
    """What the server does with each path; `requests` are the bodies it was sent."""

    models: Any = field(default_factory=lambda: MODELS)
    metrics: list[str] = field(default_factory=list)  # one page a visit, then the last one; none: 404
    replies: list[Callable[[dict[str, Any]], Body | tuple[int, str, str]]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)  # the client closed a stream


def event(value: Any) -> bytes:
    """One server-sent event."""
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def delta(
    text: str | None = None, finish: str | None = None, tokens: int | None = None, **more: Any
) -> bytes:
    """One chunk of a completion."""
    content = {} if text is None else {"content": text}
    value: dict[str, Any] = {"choices": [{"delta": content | more, "finish_reason": finish}]}
    if tokens is not None:
        value["usage"] = {"prompt_tokens": 9, "completion_tokens": tokens}
    return event(value)


def sky(request: dict[str, Any], counting: bool = True) -> Body:
    """A whole reply of seven tokens; the server counts along, or only says at the end."""
    yield event({"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
    for text, tokens in zip(PIECES, (1, 3, 6, 7), strict=True):
        yield delta(text, tokens=tokens if counting else None)
    yield delta(finish="stop", tokens=7 if counting else None)
    yield event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 7}})
    yield event("[DONE]")


def raw(*parts: bytes) -> Callable[[dict[str, Any]], Body]:
    """These bytes, each as a chunk of its own, then the end."""
    return lambda request: iter(parts)


def answer(status: int, body: str, kind: str = "application/json") -> Callable[..., tuple[int, str, str]]:
    """No stream but this."""
    return lambda request: (status, body, kind)


def error(status: int, message: str) -> Callable[..., tuple[int, str, str]]:
    """An error as OpenAI writes it."""
    return answer(status, json.dumps({"error": {"message": message}}))


class Cut(Exception):  # noqa: N818
    """Raised by a reply that drops the connection."""


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """The address of a server that follows `script`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                status, body = script.models if isinstance(script.models, tuple) else (200, script.models)
                self._whole(status, body if isinstance(body, str) else json.dumps(body), "application/json")
            elif self.path == "/metrics" and script.metrics:
                page = script.metrics.pop(0) if len(script.metrics) > 1 else script.metrics[0]
                self._whole(200, page, "text/plain")
            else:
                self._whole(404, '{"detail": "Not Found"}', "application/json")

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.requests.append(request)
            script.keys.append(self.headers["Authorization"])
            reply = script.replies.pop(0) if len(script.replies) > 1 else script.replies[0]
            result = reply(request)
            if isinstance(result, tuple):
                self._whole(*result)
            else:
                self._stream(result)

        def _stream(self, body: Body) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            self.close_connection = True
            try:
                for part in body:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except Cut:
                pass
            except OSError:
                script.hung_up.set()

        def _whole(self, status: int, body: str, kind: str) -> None:
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(3)
