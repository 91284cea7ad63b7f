"""What a benchmark makes of replies: medians of ratios, pooled tau, texts compared; and what it shows."""

from __future__ import annotations

import pytest

from eagle_chat.bench_machine import processor, without_path
from eagle_chat.benchmark import Asked, Benchmark, Fork, Reply, Row
from eagle_chat.benchmark_tables import tables

SETTINGS = {"target": "lean", "head": "small", "nodes": 8, "depth": 3, "beam": 4, "sized": False, "seed": 0}
SETTINGS |= {"heads": {"eagle2": {"name": "small"}}, "max_new_tokens": 128, "repeats": 1, "prompts": 3}
MACHINE = {
    "processor": "AMD EPYC", "cores": 2, "device": "cpu", "gpu": None, "threads": 1, "torch": "2.13.0",
    "transformers": "5.24.0", "dtype": "bf16", "quant": "none", "model": "small", "weights_sha256": "ab" * 32,
    "date": "2026-01-31",
}  # fmt: skip


def at_speed(speed: float, rounds: int = 20, tokens: tuple[int, ...] = tuple(range(21))) -> Reply:
    """A reply of this many tokens a second."""
    return Reply(tokens, rounds, (len(tokens) - 1) / speed)


def asked(task: str = "sky", temperature: float = 0.0, **replies: Reply) -> Asked:
    """One prompt; `transformers_pld` stands for the method with the hyphen."""
    by_method = {name.replace("_", "-"): reply for name, reply in replies.items()}
    return Asked(task, temperature, (7, 8), by_method)


def row(benchmark: Benchmark, method: str, task: str = "sky") -> Row:
    """The only one of a method and a task."""
    (found,) = [one for one in benchmark.rows() if (one.method, one.task) == (method, task)]
    return found


def test_ratios_are_formed_before_the_median():
    """Catches a ratio of medians: these would say 2.0 and 1.0, since the questions' speeds differ."""
    speeds = [(10, 30), (20, 20), (30, 45)]  # plain, eagle2: ratios 3, 1 and 1.5
    benchmark = Benchmark(["none", "eagle2", "transformers"])
    for plain, drafted in speeds:
        replies = {"none": at_speed(plain), "eagle2": at_speed(drafted), "transformers": at_speed(plain / 2)}
        benchmark.asked.append(asked(**replies))
    found = row(benchmark, "eagle2")
    assert found.vs_plain == pytest.approx(1.5)
    assert found.vs_transformers == pytest.approx(3.0)
    assert found.tokens_per_second == pytest.approx(30)
    assert row(benchmark, "none").vs_plain == pytest.approx(1)
    assert row(benchmark, "none").vs_transformers == pytest.approx(2)
    assert found.replies == 3


def test_a_machine_that_slows_down_changes_no_ratio():
    """Catches a method's replies that are paired with others than their neighbours in time."""
    drift = [1.0, 0.9, 0.5, 0.2, 0.1]
    benchmark = Benchmark(["none", "eagle2"])
    for index, share in enumerate(drift):
        replies = {"none": at_speed(100 * share), "eagle2": at_speed(150 * share)}
        turned = replies if index % 2 else dict(reversed(replies.items()))
        benchmark.asked.append(asked(**turned))
    assert row(benchmark, "eagle2").vs_plain == pytest.approx(1.5)


def test_methods_that_were_not_measured():
    """Catches a ratio against something that did not run, and a text that equals nothing."""
    benchmark = Benchmark(["eagle2"], [asked(eagle2=at_speed(50))])
    found = row(benchmark, "eagle2")
    assert (found.vs_plain, found.vs_transformers) == (None, None)
    assert (found.identical, found.differences, found.near_ties) == (None, None, None)
    assert found.tokens_per_second == pytest.approx(50)
    assert " – " in tables(benchmark, SETTINGS, MACHINE)


def test_replies_without_a_round():
    """Catches a division by zero, and a reply without a speed that spoils the median of the others."""
    empty, one = Reply((), 0, 0.0, prefilled=0), Reply((3,), 0, 0.0)
    benchmark = Benchmark(["none", "eagle2"])
    benchmark.asked.append(asked(none=one, eagle2=empty))
    assert row(benchmark, "eagle2").tau is None
    assert row(benchmark, "eagle2").vs_plain is row(benchmark, "none").tokens_per_second is None
    assert benchmark.summary(0.0)["none"]["tau"] is None
    assert "–" in tables(benchmark, SETTINGS, MACHINE)
    benchmark.asked.append(asked(none=at_speed(10), eagle2=at_speed(20)))
    assert row(benchmark, "eagle2").vs_plain == pytest.approx(2)
    assert row(benchmark, "eagle2").differences == 1  # an empty reply is another text


def test_tokens_of_the_prefill_count_for_no_round():
    """Catches a speed that is credited with drafts which transformers verifies together with the prompt."""
    reply = Reply(tuple(range(11)), rounds=5, seconds=2.0, prefilled=3)
    benchmark = Benchmark(["transformers-pld"], [asked(transformers_pld=reply)])
    assert row(benchmark, "transformers-pld").tau == pytest.approx(8 / 5)
    assert row(benchmark, "transformers-pld").tokens_per_second == pytest.approx(4)


def test_tau_pools_the_replies():
    """Catches a mean of replies, in which a short one counts as much as a long one: (20 + 2) / (8 + 2)."""
    benchmark = Benchmark(["eagle2"], [asked(eagle2=at_speed(9, 8)), asked(eagle2=Reply((1, 2, 3), 2, 1.0))])
    assert row(benchmark, "eagle2").tau == pytest.approx(2.2)


def test_another_text_is_counted():
    """Catches a reply that differs unnoticed: in the middle, by ending early, or at one temperature only."""
    whole = at_speed(10)
    middle, short = at_speed(10, tokens=(*range(5), 99, *range(6, 21))), at_speed(10, tokens=tuple(range(9)))
    benchmark = Benchmark(["none", "eagle2"])
    for reply in (whole, middle, short):
        benchmark.asked.append(asked(none=whole, eagle2=reply))
    found = row(benchmark, "eagle2")
    assert (found.identical, found.differences, found.near_ties) == (False, 2, 0)
    assert row(benchmark, "none").identical is True
    assert list(benchmark.forks()) == [Fork((7, 8, *range(5)), 0.0), Fork((7, 8, *range(9)), 0.0)]
    assert " ✗ 2 of 3 " in tables(benchmark, SETTINGS, MACHINE)
    assert benchmark.summary(0.0)["eagle2"]["identical"] is False


def test_near_ties_are_differences_with_an_excuse():
    """Catches a near tie that makes a reply identical, or one that excuses the other differences."""
    first, second = (at_speed(10, tokens=(*range(at), 99)) for at in (3, 6))
    replies = [asked(none=at_speed(10), eagle2=reply) for reply in (first, second)]
    benchmark = Benchmark(["none", "eagle2"], replies, {Fork((7, 8, 0, 1, 2), 0.0): True})
    found = row(benchmark, "eagle2")
    assert (found.identical, found.differences, found.near_ties) == (False, 2, 1)
    assert " ✗ 1 of 2 " in tables(benchmark, SETTINGS, MACHINE)
    benchmark.near_ties[Fork((7, 8, *range(6)), 0.0)] = True
    assert " 2 near ties " in tables(benchmark, SETTINGS, MACHINE)


def test_a_difference_that_nobody_has_looked_at():
    """Catches Ctrl+C that turns what may be a near tie into a wrong text, in the rows of others too."""
    wrong = at_speed(10, tokens=(*range(5), 99))
    benchmark = Benchmark(["none", "eagle2"], [asked(task, none=at_speed(10), eagle2=wrong) for task in "ab"])
    benchmark.unexamined = frozenset(benchmark.forks())
    assert (row(benchmark, "eagle2", "a").differences, row(benchmark, "eagle2", "a").near_ties) == (1, None)
    assert row(benchmark, "none", "a").near_ties == 0
    assert " ? 1 of 1 " in tables(benchmark, SETTINGS, MACHINE)
    assert " ? 2 of 2 " in tables(benchmark, SETTINGS, MACHINE)


def test_sampled_texts_of_transformers_are_not_compared():
    """Catches a difference made of another random generator; greedy texts and our own stay compared."""
    other = at_speed(20, tokens=(5, 6, 7))
    for temperature, expected in ((0.0, False), (1.0, None)):
        replies = {"none": at_speed(10), "eagle2": other, "transformers": other, "transformers_pld": other}
        benchmark = Benchmark(["none", "eagle2", "transformers", "transformers-pld"])
        benchmark.asked.append(asked(temperature=temperature, **replies))
        assert row(benchmark, "transformers").identical is expected
        assert row(benchmark, "transformers-pld").identical is expected
        assert row(benchmark, "eagle2").identical is False
        assert row(benchmark, "transformers").vs_plain == pytest.approx(2)


def test_summary_has_the_mean_of_tasks_and_the_median_of_all():
    """Catches one in the other's place, and a mean in which a task counts by its number of questions."""
    benchmark = Benchmark(["none", "eagle2"])
    for task, ratio in (("a", 1.0), ("a", 1.0), ("a", 1.2), ("b", 3.0)):
        benchmark.asked.append(asked(task, none=at_speed(10), eagle2=at_speed(10 * ratio)))
    summary = benchmark.as_json()["summary"]["0"]["eagle2"]
    assert summary["vs_plain"] == pytest.approx((1.0 + 3.0) / 2)
    assert summary["median_vs_plain"] == pytest.approx(1.1)
    assert summary["vs_transformers"] is summary["median_vs_transformers"] is None
    assert summary["replies"] == 4


def test_temperatures_are_kept_apart():
    """Catches replies at one temperature in the figures of another."""
    benchmark = Benchmark(["none", "eagle2"])
    for temperature, ratio in ((0.0, 2.0), (0.7, 1.2)):
        replies = {"none": at_speed(10), "eagle2": at_speed(10 * ratio)}
        benchmark.asked.append(asked(temperature=temperature, **replies))
    rows = [(one.temperature, one.method, one.vs_plain) for one in benchmark.rows()]
    assert rows == [
        (0.0, "none", 1.0),
        (0.0, "eagle2", pytest.approx(2.0)),
        (0.7, "none", 1.0),
        (0.7, "eagle2", pytest.approx(1.2)),
    ]
    assert benchmark.as_json()["summary"].keys() == {"0", "0.7"}


def test_table_fits_into_80_columns():
    """Catches a table that a terminal would fold, or that swallows a task named like markup."""
    methods = ["none", "eagle2-no-rerank", "transformers", "transformers-pld"]
    benchmark = Benchmark(methods)
    for task in ("conversation", "a[1]"):
        for speed in (100, 110):
            replies = {"none": at_speed(123.4), "transformers": at_speed(40)}
            replies |= {
                "eagle2-no-rerank": at_speed(speed),
                "transformers-pld": at_speed(9, tokens=(1, 2, 3)),
            }
            benchmark.asked.append(asked(task, **replies))
    shown = tables(benchmark, SETTINGS, MACHINE)
    *table, settings, machine = shown.splitlines()
    assert max(map(len, table)) <= 80
    assert "a[1]" in shown
    for name in methods:  # each in two tasks, and in all
        assert sum(f" {name} " in line for line in table) == 3
    assert "0.81–0.89" in shown
    assert settings.startswith("4 replies by each")
    assert all(part in machine for part in ("small (abababababab)", "AMD EPYC, 2 cores, 1 thread", "bf16"))


def test_a_tree_is_said_to_be_of_its_head():
    """Catches a size that seems to be that of every head's trees, when several were measured."""
    benchmark = Benchmark(["none"])
    heads = {"medusa": {"name": "m"}, "eagle2": {"name": "e"}}
    size = SETTINGS | {"nodes": 60, "depth": 6, "beam": 10, "sized": False, "head": "e"}
    assert "eagle2: nodes/depth/beam 60/6/10" in tables(benchmark, size | {"heads": heads}, MACHINE)
    alone = {"eagle2": {"name": "e"}}
    assert "· nodes/depth/beam 60/6/10" in tables(benchmark, size | {"heads": alone}, MACHINE)


def test_nothing_was_measured():
    """Catches a table that cannot be empty, as after an early Ctrl+C."""
    benchmark = Benchmark(["none"])
    assert benchmark.as_json() == {"results": [], "summary": {}}
    assert "no prompt was answered" in tables(benchmark, SETTINGS, MACHINE)


def test_machine_names_no_place(tmp_path):
    """Catches a user's folder in a published table, and a processor that is unknown without reason."""
    assert without_path(str(tmp_path)) == tmp_path.name
    assert without_path("owner/name") == "owner/name"
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU: 9000\nmodel name\t: Some CPU: 9000\n")
    assert processor(cpuinfo) == "Some CPU: 9000"
    assert processor(tmp_path / "none")
