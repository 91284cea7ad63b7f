"""Trees sized by cost from the options on: where they are, where they must not be, and what is recorded."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from eagle_chat import bench_loading
from eagle_chat.bench_heads import choose
from eagle_chat.bench_methods import EngineMethod
from eagle_chat.events import Finished, RoundDone, SessionInfo, Started
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Method, Options
from eagle_chat.recording import record_round
from eagle_chat.records import RoundRecord
from eagle_chat.session import ChatSession
from eagle_chat.text import Vocabulary
from eagle_chat.trace import TraceWriter, open_trace, read_trace
from engine import (
    Calibration,
    Costs,
    Eagle2,
    Engine,
    GenerationSettings,
    Round,
    StockTarget,
    TreeSizing,
    load_eagle_head,
    load_model,
    pick_device,
    pick_dtype,
)
from tests.eagle_chat.conftest import Ran
from tests.eagle_chat.evaluation_runs import report_of
from tests.eagle_chat.test_trace import assert_same

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPT = [40, 41, 42, 43, 40, 41]


class Listening(Costs):
    """Remembers the rows it is told of."""

    def __init__(self) -> None:
        super().__init__({1: 1.0, 61: 1.5})
        self.rows: list[int] = []

    def saw(self, rows: int, seconds: float) -> None:
        self.rows.append(rows)


@pytest.fixture
def load(chat_model: Path, chat_head: Path) -> Callable[..., ChatSession]:
    """Loads the tiny model with its head; keywords are options."""

    def load(*, sized: bool = True, **options: object) -> ChatSession:
        usual = {"model": str(chat_model), "head": str(chat_head), "dtype": Dtype.FP32, "max_new_tokens": 24}
        return load_session(Options(**(usual | options)), lambda _: None, sized=sized)

    return load


def drafter_of(session: ChatSession) -> Eagle2:
    drafter = session.engine.drafters["eagle2"]
    assert isinstance(drafter, Eagle2)
    return drafter


def test_without_a_size_trees_are_sized(load: Callable[..., ChatSession]) -> None:
    """Costs that are measured and never used, or followed by another object than the trees are sized by."""
    session = load()
    drafter = drafter_of(session)
    assert session.info.sized
    assert drafter.sizing is not None
    assert drafter.sizing.costs is session.engine.costs
    assert (drafter.nodes, drafter.depth, drafter.beam) == (
        session.info.nodes,
        session.info.depth,
        session.info.beam,
    )
    assert drafter.sizing.nodes == drafter.nodes
    assert session.engine.target.length == 0
    assert session.engine.tokens == []


@pytest.mark.parametrize("given", [{"nodes": 5}, {"depth": 2}, {"beam": 3}, {"nodes": 3, "beam": 3}])
def test_a_size_that_was_asked_for_is_kept(load: Callable[..., ChatSession], given: dict[str, int]) -> None:
    """--nodes taken for a limit, where the user wanted to see just that tree."""
    session = load(**given)
    assert not session.info.sized
    assert drafter_of(session).sizing is None
    assert session.engine.costs is None
    for name, number in given.items():
        assert getattr(session.info, name) == getattr(drafter_of(session), name) == number
    *_, last = session.ask("Hello there.", seed=1, stop=threading.Event())
    assert isinstance(last, Finished)


def test_what_is_not_wanted_or_has_no_tree_is_not_sized(load: Callable[..., ChatSession]) -> None:
    """Seconds of measuring for methods of a fixed size; the loader's own word overruled."""
    static = load(sized=False)
    assert not static.info.sized
    assert drafter_of(static).sizing is None
    for method in (Method.NONE, Method.LOOKAHEAD):
        session = load(method=method, head=None)
        assert not session.info.sized
        assert session.engine.costs is None


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_reply_is_that_of_plain_decoding(load: Callable[..., ChatSession], temperature: float) -> None:
    """Sizes that depend on the clock, and a text that depends on them."""
    session, stop = load(temperature=temperature), threading.Event()
    for prompt in ("Why is the sky blue?", "And the sea?"):
        *_, reply = session.ask(prompt, seed=3, stop=stop)
        *_, plain = session.again(method="none", stop=stop)
        assert isinstance(reply, Finished)
        assert isinstance(plain, Finished)
        assert reply.summary["tokens"] == plain.summary["tokens"]


def test_evaluate_measures_static_trees(
    evaluate: Callable[..., Ran], sky: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tau that depends on how busy the machine is."""
    monkeypatch.setattr(
        "engine.drafters.sizing.TreeSizing.__init__", lambda *_: pytest.fail("trees are sized by cost")
    )
    reports = [report_of(evaluate("--questions", sky, "--json")) for _ in range(2)]
    assert reports[0] == reports[1]
    assert reports[0]["nodes"] < 60


def test_another_drafter_shares_the_costs(load: Callable[..., ChatSession]) -> None:
    """An engine of a comparison that no longer follows its forwards."""
    session = load()
    session.engine.costs = costs = Listening()
    other = session.with_drafter(session.info.method, drafter_of(session))
    assert other.engine.costs is costs
    records = [e.record for e in other.ask("Hi.", seed=1, stop=threading.Event()) if isinstance(e, RoundDone)]
    assert costs.rows == [len(record.tree.tokens) for record in records[1:]]


def test_a_benchmark_follows_its_forwards(load: Callable[..., ChatSession]) -> None:
    """Trees sized by what was measured at load, through a benchmark that warms the machine up."""
    session, stop = load(), threading.Event()
    session.engine.costs = costs = Listening()
    settings = GenerationSettings(max_new_tokens=12)
    for name, drafter in (("none", None), ("eagle2", drafter_of(session))):
        costs.rows.clear()
        answer = EngineMethod(name, session.engine, drafter, settings, stop).answer(PROMPT, 0.0)
        assert len(costs.rows) == answer.rounds


def test_a_benchmark_sizes_its_trees(chat_model: Path, chat_head: Path) -> None:
    """A benchmark of other trees than the chat draws; or of sized ones where a size was asked for."""
    options = Options(str(chat_model), str(chat_head), dtype=Dtype.FP32)
    stop = threading.Event()
    chosen = choose(["eagle2", "none"], options, lambda _: None)
    loaded = bench_loading.load(options, chosen, lambda _: None, stop)
    assert loaded.session.info.sized
    given = Options(str(chat_model), str(chat_head), dtype=Dtype.FP32, nodes=5)
    loaded = bench_loading.load(given, chosen, lambda _: None, stop)
    assert not loaded.session.info.sized


Decoded = list[tuple[Round, RoundRecord]]


@pytest.fixture(scope="module")
def decode(chat_model: Path, chat_head: Path) -> Callable[..., Decoded]:
    """Rounds by made-up costs with their records, made while the rounds were valid."""
    device = pick_device("cpu")
    target = StockTarget(load_model(chat_model, pick_dtype("fp32", device), device))
    vocabulary = Vocabulary(AutoTokenizer.from_pretrained(chat_model))
    head = load_eagle_head(chat_head, target, "tiny")

    def decode(costs: dict[int, float], **settings: float) -> Decoded:
        drafter = Eagle2(head, 20, 4, 5, Calibration(4), TreeSizing(Costs(costs), 20))
        engine = Engine(target, {"eagle2": drafter})
        engine.reset()
        events = engine.generate(PROMPT, GenerationSettings(max_new_tokens=60, **settings), "eagle2")
        return [(r, record_round(r, vocabulary, watched=True)) for r in events if isinstance(r, Round)]

    return decode


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_no_nodes_and_rests_through_the_whole_loop(
    decode: Callable[..., Decoded], tmp_path: Path, temperature: float
) -> None:
    """A round without drafts that cannot be verified, recorded, written or read back."""
    done = decode({1: 50.0, 2: 1e6}, temperature=temperature)
    assert sum(len(record.new) for _, record in done) == 60
    drafted = [(step, record) for step, record in done[1:] if step.tree.growth]
    rested = [(step, record) for step, record in done[1:] if not step.tree.growth]
    assert len(drafted) >= 5
    assert len(rested) >= 5
    assert sum(len(record.tree.tokens) == 1 for _, record in drafted) >= 5
    for step, record in drafted:
        assert step.tree.sizing is not None
        if step.tree.sizing.nodes:  # after a rest some are tried
            continue
        assert record.tree.values == (0.0,)
        assert record.tree.drawn[0] == 5
        assert len(record.tree.dropped) >= 5
        assert record.tree.cutoff is None  # nothing was kept, so nothing says what was too little
        assert all(
            dropped.confidence == pytest.approx(math.exp(dropped.value)) for dropped in record.tree.dropped
        )
    for _, record in rested:
        assert record.tree.values is None
        assert record.tree.dropped == ()
    check_round_trip([record for _, record in done], tmp_path / "a.jsonl")


def test_sized_trees_survive_a_trace(decode: Callable[..., Decoded], tmp_path: Path) -> None:
    """Trees of all sizes, the last one cut before its forward, that come back as others."""
    done = decode({1: 50.0, 8: 51.0, 61: 100.0})
    assert len({len(record.tree.tokens) for _, record in done[1:]}) > 1
    assert sum(len(record.new) for _, record in done) == 60
    check_round_trip([record for _, record in done], tmp_path / "a.jsonl")


def check_round_trip(records: list[RoundRecord], path: Path) -> None:
    """Written, and read back as they were, with the information that trees were sized."""
    info = SessionInfo("tiny", "eagle2", "fp32", "cpu", "ab" * 32, 2048, 20, 4, 5, 0.0, "a/head", sized=True)
    with open_trace(path) as file:
        assert file is not None
        writer = TraceWriter(file, info)
        for event in (Started("Why?", "eagle2", 1), *(RoundDone(record, "") for record in records)):
            writer.write(event)
    trace = read_trace(path)
    assert trace.info == info
    for found, made in zip(trace.rounds, records, strict=True):
        assert_same(found.record, made)
