"""What loads the app's model, the first and any other. No torch before it is called."""

from __future__ import annotations

from dataclasses import asdict, replace

from eagle_chat.choices import Choices
from eagle_chat.options import Options
from eagle_chat.worker import Progress, Replacement, Session, SessionFactory


def session_factory(options: Options) -> SessionFactory:
    """Loads a session in the thread that calls it."""

    def load(progress: Progress) -> Session:
        from eagle_chat.sessions import open_session

        return open_session(options, progress)

    return load


def replacement(options: Options, name: str, choices: Choices) -> Replacement:
    """The model `name` with what is chosen now; its head, method and tree are its own."""
    own = dict.fromkeys(("method", "head", "draft_vocab", "nodes", "depth", "beam"))
    other = replace(options, **{**asdict(choices), **own, "model": name})

    def find(progress: Progress) -> None:
        from eagle_chat.weights import find_target

        find_target(name, progress)

    return Replacement(find, session_factory(other))
