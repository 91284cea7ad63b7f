"""The options that every way of running shares; `eagle_chat.sharing_options` adds them to a command."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from eagle_chat.methods import Method, Needs, needing
from eagle_chat.server.address import root_of

MODEL = "The model and its draft head"
DECODING = "Decoding"
TREE = "Draft tree"
SERVER = "A server that runs the model"
DRAFT_VOCAB = "Tokens a head may propose: a file of ids (FR-Spec's freq_32768.pt), the N first of it, or all."


class Dtype(StrEnum):
    """Number formats of the weights."""

    AUTO = "auto"
    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"


class Quant(StrEnum):
    """Formats of quantized weights."""

    NONE = "none"
    INT8 = "int8"
    NF4 = "nf4"


class TargetKind(StrEnum):
    """What runs the target's forwards."""

    AUTO = "auto"
    LEAN = "lean"
    STOCK = "stock"


def _share(value: float) -> float:
    """top-p: above 0 and at most 1."""
    if not 0 < value <= 1:
        raise typer.BadParameter(f"{value} is not above 0 and at most 1.")
    return value


def finite(value: float | None) -> float | None:
    """Refuse infinity, which the least value of an option lets through."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def _temperature(value: float) -> float:
    """Smaller ones overflow when they divide the scores."""
    if 0 < value < 0.001:
        raise typer.BadParameter(f"{value} is too small: use 0, which is greedy, or at least 0.001.")
    finite(value)
    return value


def is_utf8(text: str) -> bool:
    """False where an argument's bytes were no text; Python hides them in it as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: str | None) -> str | None:
    if value is not None and not is_utf8(value):
        raise typer.BadParameter("the text is not valid UTF-8.")
    return value


def _server(value: str | None) -> str | None:
    try:
        return None if value is None else root_of(value)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


def _tree_size(most: int, meaning: str) -> Any:
    """An option that counts something of the draft tree, at most `most`."""
    return typer.Option(
        min=1, max=most, help=f"{meaning} Default: by device.", rich_help_panel=TREE, show_default=False
    )


@dataclass(frozen=True)
class Options:
    """What the user chose; None where the choice is ours."""

    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="Alias (smollm2-135m, llama3-8b, llama2-7b-chat, vicuna-7b), hub id, folder or GGUF file.",
            rich_help_panel=MODEL,
        ),
    ] = "smollm2-135m"
    head: Annotated[
        str | None,
        typer.Option(
            help="Draft head or draft model: alias, hub id or folder. Default: the model's own.",
            rich_help_panel=MODEL,
        ),
    ] = None
    draft_vocab: Annotated[
        str | None,
        typer.Option(metavar="FILE[:N]|all", help=DRAFT_VOCAB, rich_help_panel=MODEL),
    ] = None
    method: Annotated[
        Method | None,
        typer.Option(
            metavar="<method>",
            help=f"What drafts, by what it needs. Nothing: {', '.join(needing(Needs.NOTHING))}. The model's "
            f"EAGLE-2 head: {', '.join(needing(Needs.EAGLE2_HEAD))}. An EAGLE-3 head: "
            f"{', '.join(needing(Needs.EAGLE3_HEAD))}. Heads of their own: medusa, hydra. A small model, "
            f"named by --head: {', '.join(needing(Needs.DRAFT_MODEL))}. Default: by the head, where one is "
            "known.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None
    dtype: Annotated[
        Dtype,
        typer.Option(
            help="Number format; auto is bf16 where the hardware has it, fp32 is exact.",
            rich_help_panel=MODEL,
        ),
    ] = Dtype.AUTO
    quant: Annotated[
        Quant,
        typer.Option(
            help="Weights in 8 or 4 bits (bitsandbytes, on CUDA and CPU), to save memory: other text than "
            "the full weights', and on a CPU slower than these (nf4 1.3 times, int8 over 2).",
            rich_help_panel=MODEL,
        ),
    ] = Quant.NONE
    device: Annotated[
        str,
        typer.Option(
            help="auto (GPUs if there are any, as many as it takes), cpu, cuda, cuda:1, mps.",
            rich_help_panel=MODEL,
        ),
    ] = "auto"
    target: Annotated[
        TargetKind,
        typer.Option(
            help="What runs the model: lean, our decoder for Llama-shaped models, or stock, transformers' "
            "own modules; auto is lean where it knows the model.",
            rich_help_panel=MODEL,
        ),
    ] = TargetKind.AUTO
    force: Annotated[
        bool,
        typer.Option("--force", help="Load also what does not seem to fit.", rich_help_panel=MODEL),
    ] = False
    temperature: Annotated[
        float,
        typer.Option(
            "--temperature", "-t", min=0, callback=_temperature, help="0 is greedy.", rich_help_panel=DECODING
        ),
    ] = 0.0
    top_p: Annotated[
        float,
        typer.Option(
            callback=_share, help="Sample from the likeliest tokens of this mass.", rich_help_panel=DECODING
        ),
    ] = 1.0
    top_k: Annotated[
        int, typer.Option(min=0, help="Sample from this many tokens; 0 is off.", rich_help_panel=DECODING)
    ] = 0
    min_p: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Drop tokens less likely than this share of the best one's.",
            rich_help_panel=DECODING,
        ),
    ] = 0.0
    repetition_penalty: Annotated[
        float,
        typer.Option(
            min=0.01, callback=finite, help="Above 1 discourages repeats.", rich_help_panel=DECODING
        ),
    ] = 1.0
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2**63 - 1,
            help="Same seed, same text. Default: a random one.",
            rich_help_panel=DECODING,
        ),
    ] = None
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest reply.", rich_help_panel=DECODING)] = 512
    system: Annotated[
        str | None, typer.Option(callback=_text, help="System prompt.", rich_help_panel=DECODING)
    ] = None
    nodes: Annotated[int | None, _tree_size(1024, "Drafted nodes verified per round.")] = None
    depth: Annotated[int | None, _tree_size(64, "Longest drafted path.")] = None
    beam: Annotated[int | None, _tree_size(128, "Nodes expanded per level.")] = None
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            callback=_server,
            help="Chat through an OpenAI-compatible server (vLLM, SGLang, llama.cpp) with its own model and "
            "drafts. --model is a name it knows; EAGLE_CHAT_API_KEY or OPENAI_API_KEY holds the key.",
            rich_help_panel=SERVER,
        ),
    ] = None
    server_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=1,
            callback=finite,
            help="How long it may send nothing.",
            rich_help_panel=SERVER,
        ),
    ] = 60.0
