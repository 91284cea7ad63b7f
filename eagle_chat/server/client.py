"""Talks HTTP to an OpenAI-compatible server: its models, its metrics and streamed replies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from eagle_chat.errors import EagleChatError
from eagle_chat.server.chunks import Chunk, parse
from eagle_chat.server.failures import in_words, refusal

COMPLETIONS, MODELS, METRICS = "/v1/chat/completions", "/v1/models", "/metrics"
CONNECTING = 10.0  # seconds until a connection must stand
ASIDE = 2.0  # seconds that metrics may take
EVENTS = "text/event-stream"
DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Model:
    """A model as the server knows it."""

    name: str
    context: int = 0  # longest sequence, tokens; 0: it does not say


class ServerClient:
    """One server. Every call opens its own connection and closes it."""

    def __init__(self, address: str, timeout: float, key: str | None) -> None:
        self.address = address
        self._timeout = timeout  # seconds without a byte
        self._no_metrics = False
        try:
            certificates = httpx2.create_ssl_context()  # takes 50 ms: not in every reply's first token
        except OSError as error:
            raise EagleChatError(
                f"The certificates in SSL_CERT_FILE or SSL_CERT_DIR cannot be read ({error})."
            ) from error
        self._settings: dict[str, Any] = {
            "verify": certificates,
            "timeout": httpx2.Timeout(timeout, connect=min(CONNECTING, timeout)),
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
        }

    def models(self) -> list[Model]:
        """What can be asked. Raises EagleChatError where that is no list of models."""
        with in_words(self.address, self._timeout), httpx2.Client(**self._settings) as client:
            response = client.get(self.address + MODELS)
        if not response.is_success:
            raise refusal(self.address, MODELS, response.status_code, response.text)
        try:
            return [Model(each["id"], each.get("max_model_len") or 0) for each in response.json()["data"]]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise self._other(MODELS, response, "a list of models") from None

    def metrics(self) -> str | None:
        """The text for Prometheus; None where there is none. A server that has no such page is asked once."""
        if self._no_metrics:
            return None
        try:
            with httpx2.Client(**{**self._settings, "timeout": ASIDE}) as client:
                response = client.get(self.address + METRICS)
        except httpx2.HTTPError:
            return None
        self._no_metrics = response.is_client_error
        return response.text if response.is_success else None

    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[Chunk, None]:
        """The chunks of a reply. Raises EagleChatError where there is none, or only a part of one."""
        over = False
        try:
            with in_words(self.address, self._timeout):
                async with (
                    httpx2.AsyncClient(**self._settings) as client,
                    client.stream("POST", self.address + COMPLETIONS, json=body) as response,
                ):
                    await self._check(response)
                    async for event in httpx2.EventSource(response):
                        if event.data == DONE:
                            return
                        if event.data:
                            chunk = parse(event.data)
                            over = over or chunk.finish is not None
                            yield chunk
        except EagleChatError:
            if not over:  # what comes after the last word is not needed
                raise
        if not over:
            raise EagleChatError(
                f"The server {self.address} ended the stream before the reply was complete: ask again."
            )

    async def _check(self, response: httpx2.Response) -> None:
        if not response.is_success:
            await response.aread()
            raise refusal(self.address, COMPLETIONS, response.status_code, response.text)
        kind = _kind(response)
        if kind == "application/json":
            await response.aread()
            if '"error"' in response.text:
                raise refusal(self.address, COMPLETIONS, response.status_code, response.text)
            raise EagleChatError(
                f"The server {self.address} answers in one piece: it does not stream replies."
            )
        if kind != EVENTS:
            raise self._other(COMPLETIONS, response, "a stream of events")

    def _other(self, path: str, response: httpx2.Response, wanted: str) -> EagleChatError:
        kind = _kind(response) or "something"
        return EagleChatError(
            f"The server {self.address} sent {kind} for {path} and not {wanted}: check the address, which is "
            "the one before /v1."
        )


def _kind(response: httpx2.Response) -> str:
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()
