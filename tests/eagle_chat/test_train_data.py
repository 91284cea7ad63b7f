"""`eagle-chat train`: the user's own conversations, bad lines in their files, and repeated conversations."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file

from eagle_chat.errors import EXIT_DONE, UsageError
from eagle_chat.loading import load_for_training
from eagle_chat.messages_file import read_conversations
from eagle_chat.options import Dtype, Options
from eagle_chat.training import TrainingRun
from eagle_chat.training_plan import Plan
from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.tiny_model import byte_level, make_model, write_model
from tests.eagle_chat.training_runs import SAID, says, write_messages

pytestmark = pytest.mark.usefixtures("one_thread")


def test_own_conversations(train, tmp_path, chat_model):
    """Catches a file that is not used, or used beyond what was asked for."""
    data = write_messages(tmp_path / "own.jsonl", 40)
    ran = train("--data", data, "--tokens", 1_000_000)
    assert ran.code == EXIT_DONE, ran.err
    out = tmp_path / "run"
    plan = json.loads((out / "plan.json").read_text())
    corpus = load_file(out / "corpus" / "00000.safetensors")
    assert len(corpus["lengths"]) == 40
    assert plan["tokens"] == len(corpus["tokens"]) == sum(corpus["lengths"].tolist())
    text = byte_level().decode(corpus["tokens"][: corpus["lengths"][0]])
    assert (
        text == f"<|im_start|>user\n0. {SAID[0]}<|im_end|>\n<|im_start|>assistant\n0. {SAID[1]}<|im_end|>\n"
    )
    says(chat_model, out)
    card = (out / "README.md").read_text()
    assert "from own.jsonl" in card
    assert "40, " in card


def test_only_as_many_own_conversations_as_asked_for(train, tmp_path):
    """Catches an hour of training on a file of which a few lines were wanted."""
    data = write_messages(tmp_path / "own.jsonl", 40)
    assert train("--data", data, "--tokens", 300).code == EXIT_DONE
    lengths = load_file(tmp_path / "run" / "corpus" / "00000.safetensors")["lengths"]
    assert sum(lengths[:-1]) < 300 <= sum(lengths)


def test_long_and_short_conversations(train, tmp_path):
    """Catches a conversation beyond the context, and one without a pair that never ends a pass."""
    data = write_messages(tmp_path / "own.jsonl", 2, repeat=400)
    with data.open("a") as lines:
        lines.write(json.dumps({"messages": [{"role": "user", "content": ""}]}) + "\n")
    assert train("--data", data, "--tokens", 10_000, "--passes", 0.1).code == EXIT_DONE
    lengths = load_file(tmp_path / "run" / "corpus" / "00000.safetensors")["lengths"].tolist()
    assert lengths[:2] == [1024, 1024]
    assert lengths[2] < 20


def test_one_conversation_and_a_tenth_of_a_pass(train, tmp_path):
    """Catches a run too small for a single step."""
    data = write_messages(tmp_path / "own.jsonl", 1)
    assert train("--data", data, "--passes", 0.01).code == EXIT_DONE
    assert (tmp_path / "run" / "model.safetensors").is_file()


def a_line(**message: object) -> bytes:
    return json.dumps({"messages": [message]}).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no conversations"),
        (b"\n \n", "holds no conversations"),
        (a_line(role="user", content="Hi") + b"\nhello\n", "line 2 is not JSON"),
        (b"[" * 100_000, "line 1 is not JSON"),
        (a_line(role="user", content="Hi") + b"\n\n[1]\n", 'line 3 lacks "messages"'),
        (b'{"turns": ["Hi"]}', 'line 1 lacks "messages"'),
        (b'{"messages": []}', 'line 1 lacks "messages"'),
        (b'{"messages": {"role": "user"}}', 'line 1 lacks "messages"'),
        (b'{"messages": ["Hi"]}', 'line 1: every message needs "role" and "content"'),
        (a_line(role="user"), 'line 1: every message needs "role" and "content"'),
        (a_line(role="user", content=["Hi"]), 'line 1: every message needs "role" and "content"'),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 'needs "role" and "content"'),
        (a_line(role="tool", content="Hi"), "line 1: a role is one of system, user, assistant, not 'tool'"),
        (a_line(content="Hi"), "line 1: a role is one of system, user, assistant, not None"),
        (b'{"messages": [{"role": "user", "content": "\xff"}]}', "is not UTF-8"),
    ],
)
def test_bad_messages(tmp_path, train, content, said):
    """Catches a traceback, or a run that is begun and cannot go on."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    if not content.strip():
        assert_refused(train("--data", path), str(path), said)
        assert not (tmp_path / "run").exists()
        return
    with pytest.raises(UsageError) as refused:
        list(read_conversations(path))
    assert str(path) in str(refused.value)
    assert said in str(refused.value)


def test_a_bad_line_stops_it_before_it_begins(train, tmp_path):
    """Catches a folder with half a run, which only --resume could go on with."""
    data = write_messages(tmp_path / "own.jsonl", 3)
    data.write_text(data.read_text() + "hello\n")
    assert_refused(train("--data", data), f"{data}, line 4 is not JSON")
    assert not (tmp_path / "run").exists()


def test_messages_that_the_template_refuses(train, tmp_path):
    """Catches a sentence that does not say which line."""
    strict = "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}"
    tokenizer = byte_level(
        strict + "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    )
    model = write_model(tmp_path / "strict", tokenizer, make_model(tokenizer))
    data = write_messages(tmp_path / "own.jsonl", 1)
    with data.open("ab") as lines:
        lines.write(a_line(role="assistant", content="Hi"))
    assert_refused(train("--data", data, model=model), f"{data}, line 2: ", "refuses this conversation")


def test_good_lines_are_not_refused(tmp_path):
    """Catches files that editors write: a byte order mark, blank lines, CRLF, odd characters in texts."""
    path = tmp_path / "good.jsonl"
    line = '{"messages": [{"role": "user", "content": "Hi\u2028there"}], "more": 1}'
    path.write_bytes(f"\ufeff{line}\r\n\r\n{line}".encode())
    assert [place for place, _ in read_conversations(path)] == [f"{path}, line 1", f"{path}, line 3"]


def test_duplicates_do_not_end_it(chat_model, tmp_path, monkeypatch):
    """Catches a run that fails at the same place for ever since its last conversation was said before."""
    target, prompts, location, stop_ids = load_for_training(
        Options(str(chat_model), dtype=Dtype.FP32), lambda event: None
    )
    plan = Plan(str(chat_model), "eagle2", location.sha256, 300, 1.0, 64, 2, 0.0, 0, None, "fp32")
    run = TrainingRun(tmp_path / "run", plan, target, prompts, stop_ids)
    for _ in run._write_conversations():
        pass
    (first,) = run.corpus.conversations()
    again = TrainingRun(tmp_path / "again", plan, target, prompts, stop_ids)
    words = again.synthesis().first_words
    monkeypatch.setattr(again.corpus, "conversations", lambda: iter([first]))  # said before
    for _ in again._write_conversations():
        pass
    assert len(again.corpus.places) == 1
    monkeypatch.undo()
    (second,) = again.corpus.conversations()
    assert words(first) != words(second)
    dull = TrainingRun(tmp_path / "dull", plan, target, prompts, stop_ids)
    monkeypatch.setattr("engine.training.Synthesis.first_words", lambda self, tokens: (1,))
    monkeypatch.setattr(dull.corpus, "conversations", lambda: iter([first]))
    with pytest.raises(UsageError, match="same conversations again and again"):
        list(dull._write_conversations())
