"""Whether a model fits, before it is fetched or loaded: what it needs, what is free, and what would fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_chat.catalogue import best_method, catalogue
from eagle_chat.errors import UsageError
from eagle_chat.hardware import free_memory, gpus, processor_has_bf16, torch_build
from eagle_chat.memory_need import Model, Need, Placing, need, weight_bytes
from eagle_chat.methods import CARDS, HEADS, Method, Needs
from eagle_chat.model_facts import known_model
from eagle_chat.options import Options
from eagle_chat.placement import Placement, parts_of, place_anyway
from eagle_chat.placement import place as place_parts
from eagle_chat.sizes import in_words

if TYPE_CHECKING:
    import torch

CONVERSATION = 2048  # tokens that must have room, or fewer where the context ends before
LONG = 8192  # tokens; shorter conversations than this are worth a word
STOCK, FP32 = "stock", "fp32"
LARGEST = 3_000_000_000  # parameters of which an fp32 copy is made, as engine.near_tie has it
QUANTS = ("none", "int8", "nf4")
NAMES = {2: "16 bit", 4: "fp32"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target would be."""

    placing: Placing
    free: int
    name: str  # for people
    each: tuple[int, ...] = ()  # free bytes of every GPU, where it is several

    @property
    def formats(self) -> dict[str, Placing]:
        """The ways of holding weights here, the largest first, by what `--dtype` and `--quant` call them."""
        full = "bf16" if self.placing.itemsize == 2 else "fp32"
        ways = QUANTS if self.placing.kind in ("cuda", "cpu") else QUANTS[:1]
        return {full if way == "none" else way: replace(self.placing, quant=way) for way in ways}

    def held(self, placing: Placing) -> Place:
        """The same place, with weights held in another way."""
        return replace(self, placing=placing)


def this_machine() -> Place | None:
    """The GPUs that PyTorch is built for, else main memory; without importing torch.

    None where nobody tells how much is free.
    """
    build = torch_build()
    found = gpus() if build is not None and build.cuda else []
    if found:
        name = found[0].name if len(found) == 1 else f"{len(found)} GPUs: {_listed([g.name for g in found])}"
        return _on_gpus([gpu.free for gpu in found], Placing("cuda", 2), name)
    free = free_memory()
    itemsize = 2 if processor_has_bf16() else 4
    return None if free is None else Place(Placing("cpu", itemsize), free, "main memory")


def place_on(devices: Sequence[torch.device], dtype: torch.dtype, quant: str) -> Place | None:
    """Devices that PyTorch can use; several are GPUs."""
    import torch

    device = devices[0]
    placing = Placing(device.type, dtype.itemsize, quant)
    if device.type == "cuda":
        free = [torch.cuda.mem_get_info(one)[0] for one in devices]
        return _on_gpus(free, placing, " + ".join(map(str, devices)))
    room = free_memory()
    return (
        None if room is None else Place(placing, room, "main memory" if device.type == "cpu" else str(device))
    )


def _on_gpus(free: Sequence[int], placing: Placing, name: str) -> Place:
    return Place(placing, sum(free), name, tuple(free) if len(free) > 1 else ())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def placement(options: Options, place: Place) -> Placement | None:
    """Where home and each layer of the model go; None where its sizes are not known, or it does not fit.

    What is forced goes somewhere in any case.
    """
    model = known_model(options.model)
    if model is None:
        return None
    needed = need(model, place.placing, _beside(options, model))
    found = _placed(model, needed, place)
    if found is None and options.force:
        return place_anyway(parts_of(model, place.placing, needed), place.each or (place.free,))
    return found


def _placed(model: Model, needed: Need, place: Place) -> Placement | None:
    """With a long conversation where there is room for one."""
    parts = parts_of(model, place.placing, needed)
    long = min(LONG, model.context or LONG)
    return place_parts(parts, place.each or (place.free,), (long, tokens_for(model)))


def check_fit(options: Options, place: Place | None, copies: Collection[str] = ()) -> list[str]:
    """A note where it only just fits; UsageError, with a table and what would fit, for what does not.

    `copies` are of the target beside it, in its own format (STOCK) or in the CPU's memory (FP32).
    """
    model = None if options.force or place is None else known_model(options.model)
    if model is None or place is None:
        return []
    needed, tokens = need(model, place.placing, _beside(options, model)), tokens_for(model)
    more = sum(_copy_bytes(copy, model, place.placing) for copy in copies)
    needed = replace(needed, copies=needed.copies + more)
    found = _placed(model, needed, place)
    if found is None:
        raise UsageError(_refusal(options, model, place, needed, tokens))
    if (room := found.room) >= min(LONG, model.context or LONG):
        return []
    return [
        f"Beside {options.model} there is room for a conversation of about {room:,} tokens ({place.name})."
    ]


def fits(model: Model, method: str | None, place: Place, placing: Placing) -> bool:
    """With the head of `method`, and a conversation."""
    head = model.shape.head_parameters(method) if method else 0
    return _placed(model, need(model, placing, head), place.held(placing)) is not None


def _copy_bytes(copy: str, model: Model, placing: Placing) -> int:
    if copy == STOCK:
        return weight_bytes(model, placing)
    is_wanted = placing.itemsize < 4 or placing.quant != "none"
    return 4 * model.parameters if is_wanted and placing.kind == "cpu" and model.parameters <= LARGEST else 0


def _beside(options: Options, model: Model) -> int:
    """About the parameters of what drafts."""
    method = options.method or Method(best_method(options.head, options.model))
    needs = CARDS[method].needs
    if needs in HEADS:
        return model.shape.head_parameters(needs.value)
    if needs is Needs.DRAFT_MODEL and options.head:
        small = known_model(options.head)
        return small.parameters if small is not None else 0
    return 0


def _has_draft_model(options: Options) -> bool:
    return options.method is not None and CARDS[options.method].needs is Needs.DRAFT_MODEL


def tokens_for(model: Model) -> int:
    """The conversation that must have room."""
    return min(CONVERSATION, model.context or CONVERSATION)


def _refusal(options: Options, model: Model, place: Place, needed: Need, tokens: int) -> str:
    quant = place.placing.quant
    held = quant if quant != "none" else NAMES.get(place.placing.itemsize, "")
    rows = [
        (f"weights, {held}", needed.weights),
        ("copies of them", needed.copies),
        ("draft model" if _has_draft_model(options) else "draft head", needed.head),
        (f"conversation of {tokens:,} tokens", tokens * needed.token),
        ("activations and libraries", needed.work),
    ]
    lines = [f"  {what:34}{in_words(size):>9}" for what, size in rows if size]
    return "\n".join(
        (
            f"{options.model} needs about {in_words(needed.total(tokens))}, and {in_words(place.free)} are "
            f"free ({place.name}):",
            *lines,
            f"{_advice(options, model, place)}; --force tries anyway",
        )
    )


def _advice(options: Options, model: Model, place: Place) -> str:
    ways = [*_smaller_formats(options, model, place), *_smaller_models(model, place)]
    return "what fits: " + ", or ".join(ways) if ways else "nothing in the catalogue fits: free some memory"


def _smaller_formats(options: Options, model: Model, place: Place) -> Iterator[str]:
    head = _beside(options, model)
    for name, placing in place.formats.items():
        now = place.placing.quant
        if placing.quant in ("none", now) or QUANTS.index(placing.quant) < QUANTS.index(now):
            continue
        needed = need(model, placing, head)
        if _placed(model, needed, place.held(placing)) is not None:
            yield f"--quant {name} ({in_words(needed.total(tokens_for(model)))})"
            return


def _smaller_models(model: Model, place: Place) -> Iterator[str]:
    """The largest of the catalogue that fits in the same way."""
    for entry in sorted(catalogue().values(), key=lambda entry: -entry.parameters):
        other, method = Model(entry.shape, entry.parameters, entry.context), best_method(None, entry.alias)
        if other.parameters < model.parameters and fits(other, method, place, place.placing):
            yield f"--model {entry.alias}"
            return
