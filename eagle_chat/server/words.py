"""What a server says about its drafts, in words. What it does not say is said to be unknown."""

from eagle_chat.records import Acceptance

UNSAID = "The server does not say how much of its drafts it accepts."


def whose(acceptance: Acceptance) -> str:
    """Whose count it is, and of what."""
    if acceptance.source == "SGLang":
        return "SGLang's running mean of the whole server"
    if not acceptance.shared:
        return f"{acceptance.source}'s count of this reply"
    meanwhile = "; others asked meanwhile" if acceptance.others else ""
    return f"{acceptance.source}'s counters of the whole server while it replied{meanwhile}"


def counted(acceptance: Acceptance, tau: str = "τ") -> str:
    """`τ 2.35, 503 drafts, 674 of 2012 drafted tokens accepted`, as far as it is known."""
    parts = [f"{tau} {acceptance.tau:.2f}"]
    if acceptance.drafts is not None:
        parts.append(f"{acceptance.drafts} drafts")
    if acceptance.accepted is not None and acceptance.drafted is not None:
        parts.append(f"{acceptance.accepted} of {acceptance.drafted} drafted tokens accepted")
    return ", ".join(parts)


def in_one_line(acceptance: Acceptance | None) -> str:
    """All of it."""
    if acceptance is None:
        return UNSAID
    shares = " ".join(f"{100 * share:.0f} %" for share in acceptance.by_depth)
    by_depth = f", accepted by depth {shares}" if shares else ""
    return f"{counted(acceptance)}{by_depth} ({whose(acceptance)})"
