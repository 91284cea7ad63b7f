"""Files of questions for `eagle-chat evaluate`: the good, the bad, and those too long for the model."""

from __future__ import annotations

import pytest

from tests.eagle_chat.conftest import assert_refused
from tests.eagle_chat.evaluation_runs import report_of, write_questions

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no questions"),
        (b"\n \n", "holds no questions"),
        (b'{"turns": ["Hi"]}\nhello\n', "line 2 is not JSON"),
        (b'{"turns": ["Hi"]}\n\n[1]\n', 'line 3 lacks "turns"'),
        (b'{"prompt": "Hi"}', 'line 1 lacks "turns"'),
        (b'{"turns": []}', 'line 1 lacks "turns"'),
        (b'{"turns": "Hi"}', 'line 1 lacks "turns"'),
        (b'{"turns": ["Hi", 7]}', 'line 1 lacks "turns"'),
        (b'{"turns": ["Hi", " "]}', 'line 1 lacks "turns"'),
        (b'{"turns": ["\\ud800"]}', 'line 1 lacks "turns"'),
        (b"[" * 100_000, "line 1 is not JSON"),
        (b'{"turns": ["\xff"]}', "is not valid UTF-8 (byte 12)"),
        (None, "cannot be read (No such file"),
    ],
)
def test_bad_questions(evaluate, tmp_path, content, said):
    """Catches a traceback, or a message that leaves the user searching for the line."""
    path = tmp_path / "bad.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert_refused(evaluate("--questions", path), str(path), said)


def test_good_lines_are_not_refused(evaluate, tmp_path):
    """Catches files that editors write: a byte order mark, blank lines, CRLF, odd characters in texts."""
    path = tmp_path / "good.jsonl"
    path.write_bytes('\ufeff{"turns": ["Hi\u2028there"]}\r\n\r\n{"turns": ["😀"]}'.encode())
    assert report_of(evaluate("--questions", path, "--json"))["questions"] == 2


def test_no_questions_and_folders(evaluate, tmp_path):
    """Catches a traceback where the file is forgotten or is a folder."""
    assert_refused(evaluate(), "there are no questions", "--questions")
    assert_refused(evaluate("--questions", tmp_path), "cannot be read (Is a directory)")


def test_two_files_of_one_task(evaluate, sky, tmp_path):
    """Catches one file's numbers that are added to the other's."""
    (tmp_path / "more").mkdir()
    other = write_questions(tmp_path / "more" / "sky.json", ["Hi"])
    assert_refused(evaluate("--questions", sky, other), str(sky), str(other), "the task sky")


def test_question_longer_than_the_context(evaluate, sky, tmp_path):
    """Catches an evaluation that dies after an hour at a question that never fitted."""
    path = write_questions(tmp_path / "long.jsonl", ["Hi"], ["Hi", "long " * 3000])
    ran = evaluate("--questions", sky, path)
    assert_refused(ran, f"{path}, line 2 is too long", "the context holds 2048")


def test_replies_that_fill_the_context(command, chat_model, chat_head, tmp_path):
    """Catches a traceback where only the replies make a conversation too long."""
    path = write_questions(tmp_path / "long.jsonl", ["word " * 350, "Go on."])
    options = ("--model", chat_model, "--head", chat_head, "--dtype", "fp32", "--max-new-tokens", 2000)
    ran = command("evaluate", *options, "--questions", path)
    assert_refused(ran, f"{path}, line 1 and the replies to it are longer", "lower --max-new-tokens")
