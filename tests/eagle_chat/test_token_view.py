"""Who wrote what: the tokens add up to the reply, and each leads to its round."""

from dataclasses import replace

import pytest

from eagle_chat.authorship import Written, written_by
from eagle_chat.events import RoundDone
from eagle_chat.records import RoundRecord
from eagle_chat.widgets.token_view import LEGEND, TokenView
from tests.eagle_chat.app_pilot import chat, picture, replies, reply_over, run, send
from tests.eagle_chat.examples import example_prefill, example_round
from tests.eagle_chat.fake_session import SKY, FakeSession


def committed(place: int, *texts: bytes) -> RoundRecord:
    """A round that committed these bytes, the last of them the target's own."""
    return replace(example_round(place), texts=texts, new=tuple(range(len(texts))), bonus=len(texts) - 1)


def test_depths_and_rounds() -> None:
    """A token shown as drafted that the target wrote, or at another depth than it had."""
    rounds = [
        RoundDone(replace(example_prefill(), texts=(b"The",)), "The"),
        RoundDone(committed(1, b" sky", b" is", b" blue"), " sky is blue"),
    ]
    assert list(written_by(rounds)) == [
        Written("The", b"The", 0, None),
        Written(" sky", b" sky", 1, 1),
        Written(" is", b" is", 1, 2),
        Written(" blue", b" blue", 1, None),
    ]


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ((b"a", "é".encode()[:1], "é".encode()[1:], b" b"), "aé b"),  # a character in two tokens
        ((b" Hello", b" you"), "Hello you"),  # the first space is dropped
        ((b"Hi", b"<|im_end|>"), "Hi"),
        ((b"Hi", b"\xff", b"!"), "Hi\ufffd!"),
        ((b"a", b"?"), "a something else"),  # whatever happens, no text is lost
    ],
)
def test_nothing_is_lost(texts: tuple[bytes, ...], text: str) -> None:
    """A view that leaves out or doubles a part of the reply."""
    found = written_by([RoundDone(committed(1, *texts), text)])
    assert "".join(token.text for token in found) == text


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_from_a_token_to_its_round(size: tuple[int, int]) -> None:
    """A key that shows nothing, a cursor without words, a token that opens another round than its own."""

    async def test() -> None:
        async with chat(FakeSession(), size=size) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("tab", "h")
            await pilot.pause()
            view = app.chat.query_one(TokenView)
            assert app.focused is app.chat.tree_view
            await pilot.press("tab")
            assert app.focused is view
            assert LEGEND.split(",")[0] in picture(app)
            await pilot.press("right", "right", "right", "left", "enter")
            await pilot.pause()
            token = view._tokens[1]
            assert token.words() in picture(app)
            tree = app.chat.tree_view
            assert tree.record is app.feed.reply.rounds[token.round]
            assert "rewound" in picture(app)
            assert tree.node is not None
            await pilot.press("h")
            await pilot.pause()
            assert app.focused is tree
            assert not app.chat.query(TokenView)
            assert replies(app) == [SKY]

    run(test)


def test_a_click_opens_the_round() -> None:
    """A mouse that hits the token beside the one it points at."""

    async def test() -> None:
        async with chat(FakeSession(), size=(120, 40)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("tab", "h")
            await pilot.pause()
            view = app.chat.query_one(TokenView)
            word = view._tokens[4]
            start = len("".join(token.text for token in view._tokens[:4])) + 1
            await pilot.click(view, offset=(start, 0))
            await pilot.pause()
            assert word.words() in picture(app)
            assert app.chat.tree_view.record is app.feed.reply.rounds[word.round]

    run(test)


def test_the_next_reply_shows_it_too() -> None:
    """A view that has to be called again for every reply, or that stays after a new conversation."""

    async def test() -> None:
        async with chat(FakeSession(), size=(100, 40)) as (app, pilot):
            await pilot.press("tab", "h")
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await send(app, pilot, "sea")
            await reply_over(app, pilot)
            assert len(app.chat.query(TokenView)) == 2
            app.action_new_chat()
            await pilot.pause()
            assert not app.chat.query(TokenView)

    run(test)


def test_keys_mean_what_they_meant() -> None:
    """Catches a toggle that takes the keys of the tree away, and a c that copies."""

    async def test() -> None:
        async with chat(FakeSession(), size=(100, 40)) as (app, pilot):
            await send(app, pilot, "sky")
            await reply_over(app, pilot)
            await pilot.press("tab", "h", "c")
            await pilot.pause()
            assert app.chat.has_class("-calibration")
            await pilot.press("tab")
            assert isinstance(app.focused, TokenView)
            await pilot.press("c")
            assert not app.chat.has_class("-calibration")
            await pilot.press("h")
            assert app.focused is app.chat.tree_view

    run(test)
