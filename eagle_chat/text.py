"""Between text and token ids: prompts, stop ids, and the bytes that each token stands for."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any

from eagle_chat.base_models import no_chat_model
from eagle_chat.errors import UsageError
from eagle_chat.messages import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from engine.training import ChatLayout

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")  # how SentencePiece vocabularies write a single byte
_MARK = "·mark·"

# How a user's turn begins, in conversations that a model writes itself: it goes on from there.
REQUESTS = (
    "Summarize:",
    "Summarize the following article in three sentences.\n\n",
    "Who",
    "When",
    "Where",
    "What is",
    "What are",
    "How many",
    "How do",
    "Why",
    "Which",
    "Explain",
    "Describe",
    "Compare",
    "Name",
    "List",
    "Give",
    "Create",
    "Generate",
    "Classify",
    "Rewrite",
    "Imagine",
    "Write a short",
    "Write a Python function",
    "Complete this code:\n\n```python\ndef",
    "Solve this step by step:",
    "If",
    "A shop",
    "She",
    "There are",
)

# How a user hands over a text.
READINGS = (
    "Give me a short summary of this text:\n\n",
    "Rewrite this in plain words:\n\n",
    "What are the main points here?\n\n",
    "Shorten this to three sentences.\n\n",
    "Answer in one paragraph what this is about.\n\n",
    "Correct and improve this text:\n\n",
)


class Vocabulary:
    """A tokenizer's ids as bytes, so that streamed text needs no re-decoding and never waits or fails."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self.special: frozenset[int] = frozenset(
            i for i, token in tokenizer.added_tokens_decoder.items() if token.special
        )
        self._added = {i: token.content.encode() for i, token in tokenizer.added_tokens_decoder.items()}
        decoder = json.dumps(json.loads(tokenizer.backend_tokenizer.to_str())["decoder"])
        self._byte_level = "ByteLevel" in decoder
        keeps = '"prepend_scheme": "never"' in decoder
        self.drops_first_space = (
            not self._byte_level and not keeps and re.search("Strip|Metaspace", decoder) is not None
        )
        self._cache: dict[int, bytes] = {}

    def bytes_of(self, token: int) -> bytes:
        """The bytes of one token; part of a character, perhaps. Special tokens give their name."""
        if token not in self._cache:
            self._cache[token] = self._added[token] if token in self._added else self._decode(token)
        return self._cache[token]

    def is_text(self, token: int) -> bool:
        """False for special tokens, and for ids that only the LM head has, which is often padded."""
        return token not in self.special and self.tokenizer.convert_ids_to_tokens(token) is not None

    def _decode(self, token: int) -> bytes:
        piece: str | None = self.tokenizer.convert_ids_to_tokens(token)
        if piece is None:
            return f"<{token}>".encode()
        if self._byte_level:
            return bytes(_BYTE_OF.get(char, 63) for char in piece)
        byte = _BYTE_TOKEN.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()


class TextStream:
    """Text of a reply as its tokens arrive: complete characters at once, the rest when they are complete."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_start = vocabulary.drops_first_space

    def add(self, tokens: list[int]) -> str:
        """The text that `tokens` complete."""
        text = ""
        for token in tokens:
            if self._vocabulary.is_text(token):
                text += self._decoder.decode(self._vocabulary.bytes_of(token))
        return self._strip(text)

    def end(self) -> str:
        """What is left of an incomplete character, as a replacement character."""
        return self._strip(self._decoder.decode(b"", final=True))

    def _strip(self, text: str) -> str:
        if self._at_start and text:
            self._at_start = False
            return text.removeprefix(" ")
        return text


class Prompts:
    """Conversations in the layout that the model was trained on: the tokenizer's chat template."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, model_name: str, fallback_template: str | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self._model_name = model_name
        self._template = tokenizer.chat_template or fallback_template
        if self._template is None:
            raise no_chat_model(model_name)

    def encode(self, messages: list[Message]) -> list[int]:
        """Token ids of the conversation, up to where the assistant's next reply begins."""
        return self._apply(
            messages, add_generation_prompt=True, return_dict=True, sanitize_control_tokens=True
        )["input_ids"]

    def end_of_turn(self) -> int | None:
        """The special token that the template puts right after an assistant's reply."""
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _MARK}]
        after = self._apply(messages, tokenize=False).rpartition(_MARK)[2].lstrip()
        for token_id, token in self.tokenizer.added_tokens_decoder.items():
            if token.special and after.startswith(token.content):
                return token_id
        return None

    def encode_whole(self, messages: list[Message]) -> list[int]:
        """Token ids of a finished conversation."""
        return self._apply(messages, return_dict=True, sanitize_control_tokens=True)["input_ids"]

    def layout(self, stop_ids: frozenset[int]) -> ChatLayout:
        """What the template puts around turns, for a model that is to write conversations itself."""
        from engine.training import ChatLayout, Role

        system, user, reply, next_user = (f"{_MARK}{i}" for i in range(4))
        dialogue = [
            {"role": "user", "content": user},
            {"role": "assistant", "content": reply},
            {"role": "user", "content": next_user},
        ]
        before, to_assistant, to_user = self._around(dialogue)
        openings, after = [(Role.USER, before)], {Role.USER: to_assistant, Role.ASSISTANT: to_user}
        try:
            before, to_first_user, _, _ = self._around([{"role": "system", "content": system}, *dialogue])
        except UsageError:  # no system turns in this template
            pass
        else:
            openings.append((Role.SYSTEM, before))
            after[Role.SYSTEM] = to_first_user
        requests, readings = (
            tuple(tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts)
            for texts in (REQUESTS, READINGS)
        )
        return ChatLayout(tuple(openings), after, stop_ids, requests, readings)

    def _around(self, messages: list[Message]) -> list[tuple[int, ...]]:
        """Token ids before each message's text."""
        rest, pieces = self._apply(messages, tokenize=False), []
        for message in messages:
            piece, mark, rest = rest.partition(message["content"])
            if not mark:
                raise UsageError(f"the chat template of {self._model_name} drops what is said in a turn")
            pieces.append(tuple(self.tokenizer(piece, add_special_tokens=False)["input_ids"]))
        return pieces

    def _apply(self, messages: list[Message], **how: Any) -> Any:
        from jinja2 import TemplateError

        try:
            return self.tokenizer.apply_chat_template(messages, chat_template=self._template, **how)
        except TemplateError as error:
            raise UsageError(
                f"the chat template of {self._model_name} refuses this conversation ({error}): "
                "try without --system, or another model"
            ) from error


def stop_ids(prompts: Prompts, generation_eos: int | list[int] | None) -> frozenset[int]:
    """Every token that ends a reply: the tokenizer's, the generation config's and the template's.

    Published models name only some of them in each place (Llama 3 has two; its tokenizer lists one).
    """
    listed = generation_eos if isinstance(generation_eos, list) else [generation_eos]
    found = [prompts.tokenizer.eos_token_id, prompts.end_of_turn(), *listed]
    return frozenset(token for token in found if token is not None)


def _bytes_of_characters() -> dict[str, int]:
    """Byte-level BPE writes each byte as one printable character (GPT-2): printable bytes as themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTE_OF = _bytes_of_characters()
