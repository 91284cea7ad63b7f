"""What goes wrong with a server, as one sentence each."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from eagle_chat.errors import EagleChatError
from eagle_chat.failures import causes
from eagle_chat.server.address import KEYS

LONGEST_DETAIL = 300  # characters of what a server says
BUSY = {429: "has too many requests", 502: "is not ready", 503: "is not ready", 504: "is not ready"}

KNOWN: list[tuple[tuple[type[Exception], ...], str]] = [  # the first that fits
    ((httpx2.ConnectTimeout,), "does not answer: check the address, and that it runs"),
    ((httpx2.ConnectError,), "cannot be reached ({reason}): check the address, and that it runs"),
    (
        (httpx2.TimeoutException,),
        "sent nothing for {seconds} seconds: ask again, or allow more with --server-timeout",
    ),
    ((httpx2.ProxyError,), "cannot be reached through the proxy ({reason}): NO_PROXY can name the server"),
    ((httpx2.SSEError,), "sent an event that is too long"),
    (
        (httpx2.NetworkError, httpx2.RemoteProtocolError),
        "closed the connection in the middle: ask again",
    ),
]


class RequestRefusedError(EagleChatError):
    """The server does not take the request as it is: some parameter, or a conversation that is too long."""


@contextmanager
def in_words(address: str, timeout: float) -> Iterator[None]:
    """Whatever the HTTP library raises inside becomes our sentence, also about certificates and proxies."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, ImportError) as error:
        raise EagleChatError(f"The server {address} {_what_happened(error, timeout)}.") from error


def _what_happened(error: Exception, timeout: float) -> str:
    tls = next((cause for cause in causes(error) if isinstance(cause, ssl.SSLError)), None)
    if tls is not None:
        reason = getattr(tls, "verify_message", "") or tls.reason or "no TLS"
        return (
            f"cannot be reached safely ({reason}): check https:// and the port, or name its certificate in "
            "SSL_CERT_FILE"
        )
    for kinds, words in KNOWN:
        if isinstance(error, kinds):
            return words.format(reason=_reason(error), seconds=f"{timeout:g}")
    return f"cannot be talked to ({_reason(error)})"


def _reason(error: Exception) -> str:
    deepest = list(causes(error))[-1]
    reason = getattr(deepest, "strerror", None) or str(deepest)
    return reason.partition("\n")[0].lower() or type(deepest).__name__


def refusal(address: str, path: str, status: int, body: str) -> EagleChatError:
    """The sentence for a status that is no success."""
    said = detail(body)
    code = f"{status}: {said}" if said else str(status)
    if status in (401, 403):
        return EagleChatError(f"The server {address} wants another key ({code}): set {KEYS[0]} or {KEYS[1]}.")
    if status == 404:
        return EagleChatError(
            f"The server {address} has no {path} ({code}): check --model, and that the address is the one "
            "before /v1."
        )
    if status in BUSY:
        return EagleChatError(f"The server {address} {BUSY[status]} ({code}): wait a moment, then ask again.")
    if status in (400, 422):
        return RequestRefusedError(f"The server {address} refuses the request ({code}).")
    if 300 <= status < 400:
        return EagleChatError(f"The server {address} sends us elsewhere ({code}): give that address.")
    return EagleChatError(f"The server {address} failed ({code}).")


def detail(body: str) -> str:
    """The message inside an error's JSON, in one line; empty for pages and other things."""
    try:
        value: Any = json.loads(body)
    except ValueError:
        return ""
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and key in value:
            value = value[key]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())[:LONGEST_DETAIL].rstrip(".")
