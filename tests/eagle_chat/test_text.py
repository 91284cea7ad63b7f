"""Between text and token ids, against what the tokenizer itself says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tokenizers import decoders
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from eagle_chat.chat_layouts import layout_for
from eagle_chat.errors import UsageError
from eagle_chat.text import Prompts, TextStream, Vocabulary, stop_ids
from tests.eagle_chat.tiny_model import CHATML, LLAMA_2, LLAMA_3, SENTENCES, byte_level, sentence_piece

TEXTS = [
    *SENTENCES,
    "",
    " ",
    "  two  spaces ",
    "\n\t",
    "é",
    "👩‍👩‍👧‍👦 family",
    "日本語のテキスト",
    "<think>so</think>",
    "▁",
]
QUESTION = [{"role": "user", "content": "Why?"}]


def decoded(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert isinstance(text, str)
    return text


def streamed(vocabulary: Vocabulary, ids: list[int], seed: int) -> str:
    """The text of `ids` arriving in groups of 0 to 3."""
    rng, stream, text, at = random.Random(seed), TextStream(vocabulary), "", 0
    while at < len(ids):
        size = rng.randint(0, 3)
        text += stream.add(ids[at : at + size])
        at += size
    return text + stream.end()


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_streamed_text_is_what_the_tokenizer_decodes(make):
    """Catches lost or doubled spaces, characters cut at a token's edge, and special tokens in the text."""
    tokenizer = make()
    vocabulary = Vocabulary(tokenizer)
    for seed, text in enumerate(TEXTS):
        for added in (True, False):
            ids = [*tokenizer.encode(text, add_special_tokens=added), tokenizer.eos_token_id]
            assert streamed(vocabulary, ids, seed) == decoded(tokenizer, ids), (text, ids)


def test_random_ids_of_a_byte_level_vocabulary():
    """Catches any sequence a model may emit that streams otherwise than it decodes, padded ids included."""
    tokenizer = byte_level()
    vocabulary = Vocabulary(tokenizer)
    rng = random.Random(1)
    emoji = tokenizer.encode("😀天é👍🏽")
    for seed in range(300):
        ids = [rng.randrange(len(tokenizer) + 9) for _ in range(rng.randint(0, 12))]
        at = rng.randint(0, len(emoji))
        ids += emoji[at : at + rng.randint(0, 6)]  # cut anywhere
        assert streamed(vocabulary, ids, seed) == decoded(tokenizer, ids), ids


def test_random_ids_of_a_sentence_piece_vocabulary():
    """Catches the same with ▁ and single bytes.

    Runs of bytes that are no UTF-8 are left out: the tokenizer then replaces the run's whole characters too,
    which a stream that has shown them already cannot.
    """
    tokenizer = sentence_piece()
    vocabulary = Vocabulary(tokenizer)
    rng = random.Random(2)
    for seed in range(300):
        ids: list[int] = []
        for _ in range(rng.randint(0, 8)):
            one = rng.randrange(len(tokenizer) + 9)
            is_byte = 3 <= one < 259
            ids += [3 + byte for byte in rng.choice("é天😀Z").encode()] if is_byte else [one]
        assert streamed(vocabulary, ids, seed) == decoded(tokenizer, ids), ids


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_space_before_the_first_word(scheme):
    """Catches a reply that loses its first space, or keeps one that the tokenizer only put there."""
    tokenizer = sentence_piece()
    tokenizer.backend_tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    ids = tokenizer.convert_tokens_to_ids(["▁the", "▁an", "is"])
    assert streamed(Vocabulary(tokenizer), ids, 1) == decoded(tokenizer, ids)


def test_incomplete_character_waits_and_is_replaced_at_the_end():
    """Catches a replacement character in the middle of a stream, and bytes that vanish at its end."""
    tokenizer = sentence_piece()
    stream = TextStream(Vocabulary(tokenizer))
    first, *rest = [3 + byte for byte in "😀".encode()]
    assert stream.add([first]) == ""
    assert stream.add(rest) == "😀"
    assert stream.add([first, rest[0]]) == ""
    assert stream.end() == "\ufffd"


def test_bytes_of_tokens():
    """Catches token texts in the tree that show the tokenizer's own alphabet (Ġ, ▁, <0x0A>)."""
    levels, pieces = byte_level(), sentence_piece()
    for tokenizer, text in ((levels, " the"), (pieces, "the")):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert b"".join(map(Vocabulary(tokenizer).bytes_of, ids)) == b" the"
    vocabulary = Vocabulary(pieces)
    assert vocabulary.bytes_of(pieces.convert_tokens_to_ids("<0x0A>")) == b"\n"
    assert vocabulary.bytes_of(pieces.convert_tokens_to_ids("<0xF0>")) == b"\xf0"
    assert vocabulary.bytes_of(pieces.eos_token_id) == b"</s>"
    assert Vocabulary(levels).bytes_of(levels.convert_tokens_to_ids("<think>")) == b"<think>"


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_ids_beyond_the_vocabulary(make):
    """Catches a crash on, or text from, the padding rows that published LM heads carry."""
    tokenizer = make()
    vocabulary = Vocabulary(tokenizer)
    beyond = len(tokenizer) + 3
    assert vocabulary.bytes_of(beyond) == f"<{beyond}>".encode()
    assert not vocabulary.is_text(beyond)
    assert streamed(vocabulary, [beyond, beyond], 0) == ""


def llama_3() -> PreTrainedTokenizerFast:
    names = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|end_of_text|>")
    return byte_level(LLAMA_3, names)


@pytest.mark.parametrize(
    ("make", "token"),
    [(byte_level, "<|im_end|>"), (llama_3, "<|eot_id|>"), (sentence_piece, "</s>")],
    ids=["ChatML", "Llama 3", "Llama 2"],
)
def test_end_of_turn(make, token):
    """Catches endless replies: the template's own end of turn is not always the tokenizer's eos."""
    tokenizer = make()
    assert Prompts(tokenizer, "it").end_of_turn() == tokenizer.convert_tokens_to_ids(token)


def test_template_without_an_end_of_turn():
    """Catches a stop id invented where the template puts none."""
    plain = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    assert Prompts(byte_level(plain), "it").end_of_turn() is None


def test_stop_ids_are_the_union():
    """Catches a model that runs on because one of the three places that name its stop tokens is ignored."""
    tokenizer = llama_3()
    prompts = Prompts(tokenizer, "it")
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in ("<|eot_id|>", "<|end_of_text|>")}
    assert tokenizer.eos_token == "<|end_of_text|>"
    assert stop_ids(prompts, None) == set(ids.values())
    assert stop_ids(prompts, 7) == {7, *ids.values()}
    assert stop_ids(prompts, [7, 0]) == {7, 0, *ids.values()}


@pytest.mark.parametrize(
    ("make", "template"), [(llama_3, LLAMA_3), (sentence_piece, LLAMA_2), (byte_level, CHATML)]
)
def test_prompt_is_the_rendered_template_and_nothing_else(make, template):
    """Catches a second BOS, added by the tokenizer to the one that the template writes."""
    tokenizer = make()
    prompts = Prompts(tokenizer, "it")
    ids = prompts.encode([{"role": "system", "content": "Be brief."}, *QUESTION])
    text = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Be brief."}, *QUESTION], tokenize=False, add_generation_prompt=True
    )
    assert ids == tokenizer.encode(text, add_special_tokens=False)
    assert ids.count(tokenizer.bos_token_id) == (1 if "bos_token" in template else 0)


def test_no_template_is_a_usage_error():
    """Catches a base model that is taken for a chat model."""
    with pytest.raises(UsageError, match="owner/base has no chat template"):
        Prompts(byte_level(template=None), "owner/base")


def test_base_model_of_a_known_chat_model_leads_to_it():
    """Catches 16 GB of a model that cannot chat, and no word about its sibling that can."""
    with pytest.raises(UsageError, match=r"no chat model: choose llama3-8b$"):
        Prompts(byte_level(template=None), "meta-llama/Meta-Llama-3-8B")


def test_template_that_refuses_is_a_usage_error():
    """Catches Jinja's traceback where a model takes no system prompt, as Gemma's template says."""
    prompts = Prompts(byte_level("{{ raise_exception('System role not supported') }}"), "it")
    with pytest.raises(UsageError, match=r"System role not supported.*without --system"):
        prompts.encode(QUESTION)


def template_of(model: str) -> str:
    layout = layout_for(model)
    assert layout is not None
    return layout.template


def test_vicuna_template():
    """Catches a layout the Vicuna head was not trained with: one space between segments, none at the end."""
    prompts = Prompts(sentence_piece(template=None), "vicuna-7b", template_of("vicuna-7b"))
    conversation = [*QUESTION, {"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
    text = prompts.tokenizer.apply_chat_template(
        conversation, chat_template=template_of("vicuna-7b"), add_generation_prompt=True, tokenize=False
    )
    assert text == (
        "<s>A chat between a curious user and an artificial intelligence assistant. The assistant gives "
        "helpful, detailed, and polite answers to the user's questions. USER: Why? ASSISTANT: So.</s>"
        "USER: And? ASSISTANT:"
    )
    assert prompts.encode(conversation).count(prompts.tokenizer.bos_token_id) == 1
    assert prompts.end_of_turn() == prompts.tokenizer.eos_token_id


def test_vicuna_template_with_a_system_prompt():
    """Catches a --system that Vicuna's template drops, or adds to its own sentence."""
    messages = [{"role": "system", "content": "Be brief."}, *QUESTION]
    prompts = Prompts(sentence_piece(template=None), "vicuna-7b", template_of("vicuna-7b"))
    ids = prompts.encode(messages)
    assert prompts.tokenizer.decode(ids, skip_special_tokens=True) == "Be brief. USER: Why? ASSISTANT:"


def test_only_models_without_a_template_get_ours():
    """Catches our template replacing one that a tokenizer brings."""
    own = Prompts(byte_level(), "it", template_of("lmsys/vicuna-7b-v1.3"))
    assert own.encode(QUESTION) == Prompts(byte_level(), "it").encode(QUESTION)
    assert layout_for("llama3-8b") is None
    assert layout_for("some/model") is None


def test_llama_2_template():
    """Catches a layout that Llama 2's heads were not trained with, by the template of its own repository."""
    tokenizer = sentence_piece()
    told = [{"role": "system", "content": "Be brief."}, *QUESTION, {"role": "assistant", "content": "So."}]
    for messages in (QUESTION, told, [*told, {"role": "user", "content": "And?"}]):
        for add in (True, False):
            own, ours = (
                tokenizer.apply_chat_template(
                    messages, chat_template=template, add_generation_prompt=add, tokenize=False
                )
                for template in (LLAMA_2, template_of("llama2-13b-chat"))
            )
            assert ours == own
    assert ours.startswith("<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nWhy? [/INST] So. </s><s>[INST] And?")


@pytest.mark.parametrize(
    ("model", "head", "alias"),
    [
        ("/models/vicuna-7b-v1.3", None, "vicuna-7b"),
        ("somebody/Vicuna-33b-v1.3-exl", None, "vicuna-33b"),
        ("/models/llama-2-13b-chat.Q4_K_M.gguf", None, "llama2-13b-chat"),
        ("/models/mine", "yuhuili/EAGLE-Vicuna-7B-v1.3", "vicuna-7b"),
        ("/models/mine", "/heads/eagle-llama2-chat-70b", "llama2-70b-chat"),
        ("/models/mine", "vicuna-13b", "vicuna-13b"),
        ("/models/Llama-2-7b-hf", "yuhuili/EAGLE-llama2-chat-7B", None),
        ("/models/mine", "/heads/mine", None),
        ("/models/vicuna-7b", None, None),
    ],
)
def test_copies_get_the_layout_of_their_head(model, head, alias):
    """Catches a copy of Vicuna that is called no chat model, and a base model that is prompted as one."""
    layout = layout_for(model, head)
    notes = None if layout is None else layout.notes
    said = f"The tokenizer of {model} has no chat template: prompts are laid out as for {alias}."
    assert notes == (None if alias is None else (said,))


def test_control_tokens_in_a_message_are_text(chat_model: Path) -> None:
    """Catches a message that ends its own turn because its text spells the template's end-of-turn token."""
    tokenizer = AutoTokenizer.from_pretrained(chat_model)
    prompts = Prompts(tokenizer, "tiny")
    end = prompts.end_of_turn()
    spelled = tokenizer.convert_ids_to_tokens(end)
    plain = prompts.encode([{"role": "user", "content": "a b"}])
    spelling = prompts.encode([{"role": "user", "content": f"a {spelled} b"}])
    assert spelling.count(end) == plain.count(end)
    assert spelled in tokenizer.decode(spelling)
