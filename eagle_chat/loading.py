"""From options to a session that takes prompts. The first place that imports torch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from eagle_chat.base_models import check_chats
from eagle_chat.catalogue import best_method
from eagle_chat.choices import Choices
from eagle_chat.draft_models import find_draft_model
from eagle_chat.draft_vocabulary import load_network
from eagle_chat.drafting import size_of
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Loading, SessionInfo
from eagle_chat.fitting import check_fit, place_on
from eagle_chat.loading_drafters import Sizes, load_drafter, load_drafters
from eagle_chat.loading_target import load_prompts, load_target, why_plain
from eagle_chat.methods import CARDS, HEADS, Method, Needs, are_sized, fastest
from eagle_chat.more_methods import MoreMethods
from eagle_chat.options import Options
from eagle_chat.pairing import check_base, check_pairing
from eagle_chat.spreading import spread_over
from eagle_chat.tree_sizes import follow_costs, given_size, size_by_cost
from eagle_chat.weights import WeightsLocation, find_head, find_target

if TYPE_CHECKING:
    from eagle_chat.loading_drafters import AnyHead
    from eagle_chat.session import ChatSession
    from eagle_chat.text import Prompts
    from engine import Drafter, Engine, GenerationSettings, StockTarget, Target

Progress = Callable[[Loading], None]


def load_session(
    options: Options, progress: Progress, *, watched: bool = True, sized: bool = True
) -> ChatSession:
    """Find or fetch the weights, load them, and warm the engine up.

    Trees are `sized` by what they cost, unless that is not wanted or the options say how large they are.
    Raises EagleChatError or UsageError with one sentence for whatever cannot work.
    """
    refuse_server(options)
    progress(Loading("starting PyTorch"))
    with _engine_errors_as_ours(options):
        return _load(options, progress, watched, sized)


def load_for_training(
    options: Options, progress: Progress
) -> tuple[StockTarget, Prompts, WeightsLocation, frozenset[int]]:
    """The target alone, its prompts, where its weights come from, its stop ids. Raises as `load_session`."""
    from eagle_chat.text import stop_ids

    refuse_server(options)
    progress(Loading("starting PyTorch"))
    with _engine_errors_as_ours(options):
        from engine import StockTarget, load_model, pick_device, pick_dtype
        from engine.memory import keep_freed_memory

        keep_freed_memory()  # large tensors come and go with every step
        device = pick_device(options.device)
        dtype = pick_dtype(options.dtype.value, device)
        check_fit(options, place_on([device], dtype, options.quant.value))
        location = find_target(options.model, progress)
        progress(Loading(f"loading {location.name}"))
        prompts, _ = load_prompts(options, location)
        target = StockTarget(load_model(location.folder, dtype, device))
    return target, prompts, location, stop_ids(prompts, target.model.generation_config.eos_token_id)


def check_room(options: Options, copies: Collection[str]) -> None:
    """Raise UsageError where the target does not fit with `copies` of it, as `check_fit` has them."""
    from engine import pick_devices, pick_dtype

    with _engine_errors_as_ours(options):
        devices = pick_devices(options.device)
        dtype = pick_dtype(options.dtype.value, devices[0])
    check_fit(options, place_on(devices, dtype, options.quant.value), copies)


def refuse_server(options: Options) -> None:
    """Raise UsageError where the model is not to be loaded here."""
    if options.server is not None:
        raise UsageError("this command looks into the model and needs it here: leave --server out")


def load_head(options: Options, head: WeightsLocation, target: Target) -> tuple[Method, Drafter]:
    """Method and drafter of a head for a loaded target, its tree by `options`. Raises as `load_session`."""
    with _engine_errors_as_ours(options):
        method = _method_of(head, None)
        network, _ = load_network(replace(options, draft_vocab=None), head, target)
        return method, load_drafter(options, method, network, target)


def load_more(
    options: Options, method: Method, head: WeightsLocation | None, engine: Engine, progress: Progress
) -> dict[str, Drafter]:
    """Drafters of further weights for a loaded target. Raises as `load_session`."""
    with _engine_errors_as_ours(options):
        sizes = Sizes(options, method, engine.target.device, by_cost=engine.costs is not None)
        network, _ = _network(replace(options, draft_vocab=None), method, head, engine.target)
        drafters = load_drafters(options, sizes, engine.target, head, network, progress)
    if engine.costs is not None:
        follow_costs(drafters.values(), engine.costs)
    return drafters


def kind_of_head(options: Options, head: WeightsLocation, asked: Method | None = None) -> Method:
    """The method that it was made for, which must be the one asked for. Raises as `load_session`."""
    with _engine_errors_as_ours(options):
        return _method_of(head, asked)


def _network(
    options: Options, method: Method, head: WeightsLocation | None, target: Target
) -> tuple[AnyHead | None, list[str]]:
    """The draft network of a session, and what to tell about it; none where it drafts with a small model."""
    if head is None or CARDS[method].needs is Needs.DRAFT_MODEL:
        return None, []
    return load_network(options, head, target)


@contextmanager
def _engine_errors_as_ours(options: Options) -> Iterator[None]:
    import engine as eng
    from eagle_chat.out_of_memory import is_out_of_memory, loading_ended

    try:
        yield
    except (eng.CorruptFileError, eng.LoadError) as error:
        raise EagleChatError(str(error)) from error
    except eng.EngineError as error:
        raise UsageError(str(error)) from error
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise loading_ended(options.model) from error
        raise


def _load(options: Options, progress: Progress, watched: bool, sized: bool) -> ChatSession:
    from eagle_chat.session import ChatSession, Models
    from eagle_chat.text import Vocabulary, stop_ids
    from engine import Engine, dtype_name, pick_devices, pick_dtype, quantization_of
    from engine.footprint import token_bytes
    from engine.memory import free_cached_memory, keep_freed_memory, return_freed_memory

    devices = pick_devices(options.device)
    device = devices[0]
    dtype = pick_dtype(options.dtype.value, device)
    check_chats(options.model, options.head)
    remarks = [*check_pairing(options), *check_fit(options, place_on(devices, dtype, options.quant.value))]
    # The head first: it is small, and what is wrong with the options shows before a large download.
    method, head, notes = _pick_method(options, progress)
    if options.draft_vocab and (head is None or CARDS[method].needs is Needs.DRAFT_MODEL):
        raise UsageError(f"--draft-vocab has no use with --method {method}: leave one of them out")
    sized = sized and not given_size(options) and are_sized(method)
    if sized and options.method is None:
        method = fastest(method)
    sizes = Sizes(options, method, device, sized)
    size, sized = sizes.of(method), sizes.is_by_cost(method)
    location = find_target(options.model, progress)
    progress(Loading(f"loading {location.name}"))
    prompts, layout = load_prompts(options, location)
    return_freed_memory()  # until all is loaded
    spread = spread_over(options, dtype, devices)
    target, told = load_target(options, location, dtype, spread)
    if not target.takes_trees and method is not Method.NONE:
        method, head, sized = Method.NONE, None, False
        sizes = Sizes(Options(), method, device, by_cost=False)
        size = sizes.of(method)
        notes = [f"{location.name} cannot verify drafts ({why_plain(target)}), so it decodes plainly."]
    free_cached_memory()
    keep_freed_memory()
    network, about = _network(options, method, head, target)
    drafters = load_drafters(options, sizes, target, head, network, progress)
    if CARDS[method].needs in (Needs.MEDUSA_HEADS, Needs.HYDRA_HEADS):
        size, _ = size_of(drafters[method.value])  # of as many depths as there are heads
    settings = _settings(options, stop_ids(prompts, target.model.generation_config.eos_token_id))
    info = SessionInfo(
        model=options.model,
        method=method.value,
        dtype=dtype_name(dtype),
        device=spread.name,
        weights_sha256=location.sha256,
        context=target.context,
        nodes=size.nodes,
        depth=size.depth,
        beam=size.beam,
        sized=sized,
        temperature=options.temperature,
        head=head.name if head else options.head,
        notes=(*location.notes, *layout, *remarks, *spread.notes, *notes, *about, *told),
        kv_token_bytes=token_bytes(target.model),
        quant=quantization_of(target.model),
    )
    engine = Engine(target, drafters)
    progress(Loading("warming up"))
    prompt = prompts.encode([{"role": "user", "content": "Hello"}])
    _warm_up(engine, prompt, method)
    if sizes.by_cost:
        size_by_cost(engine, prompt)
    gc.collect()  # what is loaded stays: the collector need not walk it in the middle of a round
    gc.freeze()
    more = MoreMethods(options) if target.takes_trees else None
    models = Models(engine, Vocabulary(prompts.tokenizer), prompts, more)
    return ChatSession(models, settings, info, Choices.of(options, method.value), watched=watched)


def _pick_method(options: Options, progress: Progress) -> tuple[Method, WeightsLocation | None, list[str]]:
    """The method asked for or the best one that has what it needs; its head; what to tell the user."""
    method = options.method
    needs = CARDS[method or Method(best_method(options.head, options.model))].needs
    if needs is Needs.NOTHING and options.head:
        raise UsageError(f"--head has no use with --method {method}: leave one of them out")
    if needs is Needs.DRAFT_MODEL:
        small = find_draft_model(options.head, options.model, progress)
        if small is None:
            raise UsageError(f"--method {method} needs the small model: name it with --head")
        return method or Method.DRAFT_MODEL, small, list(small.notes)
    if method is not None and needs not in HEADS:
        return method, None, []
    head = find_head(options.head, options.model, needs.value, progress)
    if head:
        return _method_of(head, method), head, [*head.notes, *check_base(options, head)]
    if method is not None:
        raise UsageError(
            f"no draft head is known for {options.model} and --method {method}: name one with --head, or use "
            "--method pld"
        )
    note = f"No draft head is known for {options.model}, so prompt lookup drafts; --head names one."
    return Method.PLD, None, [note]


def _method_of(head: WeightsLocation, asked: Method | None) -> Method:
    """What was asked for, which must be something the head was made for."""
    from engine import recognise_head

    found = Method(recognise_head(head.folder))
    if asked is not None and CARDS[asked].needs is not CARDS[found].needs:
        raise UsageError(
            f"{head.name} is a head for --method {found}, not for {asked}: leave --method out, or name "
            "another head"
        )
    return asked or found


def _settings(options: Options, stop_ids: frozenset[int]) -> GenerationSettings:
    from engine import GenerationSettings

    return GenerationSettings(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        repetition_penalty=options.repetition_penalty,
        max_new_tokens=options.max_new_tokens,
        stop_ids=stop_ids,
    )


def _warm_up(engine: Engine, prompt: list[int], method: Method) -> None:
    """Run a few rounds, so that the first reply's clock does not pay for lazily built kernels."""
    from engine import GenerationSettings, pick_threads

    for warm in {"none", method.value}:
        for _ in engine.generate(prompt, GenerationSettings(max_new_tokens=6), warm):
            pass
        engine.reset()
    if engine.target.device.type == "cpu":
        pick_threads(engine, prompt)
