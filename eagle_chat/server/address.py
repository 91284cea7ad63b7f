"""The address of a server, as somebody types it, and the key that goes with it."""

import os
from urllib.parse import urlsplit

from eagle_chat.errors import UsageError

KEYS = ("EAGLE_CHAT_API_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key, the first one first. It is never shown or logged."""


def root_of(url: str) -> str:
    """The address before `/v1`. Raises ValueError with the reason, which never repeats the address."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address such as http://localhost:8000 is needed")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"the key belongs into {KEYS[0]}, not into the address")
    if parts.query or parts.fragment:
        raise ValueError("the address ends before `?` and `#`")
    _ = parts.port  # raises where it is no number
    path = parts.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/v1")
    return f"{parts.scheme}://{parts.netloc}{path}"


def api_key() -> str | None:
    """The key in the environment, if there is one."""
    for name in KEYS:
        if key := os.environ.get(name, "").strip():
            if not (key.isascii() and key.isprintable()):
                raise UsageError(f"{name} holds characters that no key has: set it anew")
            return key
    return None
