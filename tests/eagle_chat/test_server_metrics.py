"""What servers publish about their drafts, as their pages really look."""

import pytest

from eagle_chat.records import Acceptance
from eagle_chat.server.metrics import acceptance_between, acceptance_in, read_counters
from eagle_chat.server.words import in_one_line

VLLM = """
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="a b}c"} DRAFTS
vllm:spec_decode_num_drafts_total{engine="1",model_name="a b}c"} 5.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="a b}c"} 1.75e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="a b}c"} DRAFTED
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="a b}c"} ACCEPTED
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a b}c",position="0"} FIRST
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a b}c",position="1"} SECOND
vllm:generation_tokens_total{engine="0",model_name="a b}c"} GENERATED
vllm:spec_decode_nonsense NaN
"""


def vllm(drafts: int, first: int, second: int, generated: int) -> str:
    """A page of vLLM with two positions."""
    values = {
        "DRAFTS": drafts, "DRAFTED": 2 * drafts, "ACCEPTED": first + second, "FIRST": first,
        "SECOND": second, "GENERATED": generated,
    }  # fmt: skip
    page = VLLM
    for name, value in values.items():
        page = page.replace(f"}} {name}\n", f"}} {value}.0\n")
    return page


BEFORE = read_counters(vllm(100, 80, 40, 1000))


@pytest.mark.parametrize(("generated", "others"), [(1018, False), (1019, True)])
def test_vllm(generated: int, others: bool) -> None:
    """Catches totals for differences, one engine for all, and the drafts of others taken for ours."""
    found = acceptance_between(BEFORE, read_counters(vllm(110, 87, 42, generated)), 18)
    assert found == Acceptance("vLLM", 1.9, 10, 20, 9, (0.7, 0.2), shared=True, others=others)
    whole = "vLLM's counters of the whole server while it replied"
    assert in_one_line(found) == (
        "τ 1.90, 10 drafts, 9 of 20 drafted tokens accepted, accepted by depth 70 % 20 % "
        f"({whole}{'; others asked meanwhile' if others else ''})"
    )


@pytest.mark.parametrize(
    "page", [vllm(100, 80, 40, 1018), vllm(7, 3, 1, 18), "vllm:generation_tokens_total 1018.0", "", "<html>"]
)
def test_nothing_drafted(page: str) -> None:
    """Catches figures where nothing was drafted, the server was started anew or the page says nothing."""
    found = acceptance_between(BEFORE, read_counters(page), 18)
    assert found is None
    assert in_one_line(found) == "The server does not say how much of its drafts it accepts."


def test_sglang() -> None:
    """Catches the mean of idle ranks counted in, and a depth that SGLang does not tell."""
    page = 'sglang:spec_accept_length{tp_rank="0"} 2.5\nsglang:spec_accept_length{tp_rank="1"} 0.0\n'
    found = acceptance_between(read_counters(""), read_counters(page), 18)
    assert found == Acceptance("SGLang", 2.5)
    assert in_one_line(found) == "τ 2.50 (SGLang's running mean of the whole server)"


def test_llama_cpp() -> None:
    """Catches the first token, which no round makes, counted as one of a round."""
    found = acceptance_in({"predicted_n": 13, "draft_n": 15, "draft_n_accepted": 8})
    assert found == Acceptance("llama.cpp", 3.0, None, 15, 8, shared=False)
    assert in_one_line(found) == "τ 3.00, 8 of 15 drafted tokens accepted (llama.cpp's count of this reply)"


@pytest.mark.parametrize(
    "timings",
    [
        None, {}, {"predicted_n": 13}, {"predicted_n": 5, "draft_n": 8, "draft_n_accepted": 8},
        {"predicted_n": 13, "draft_n": "15", "draft_n_accepted": 8},
        {"predicted_n": 9, "draft_n": 0, "draft_n_accepted": 0},
    ],
)  # fmt: skip
def test_llama_cpp_says_nothing(timings: dict[str, object] | None) -> None:
    """Catches a division by nothing, and a server without drafts taken for one that accepts none."""
    assert acceptance_in(timings) is None
