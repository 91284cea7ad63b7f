"""`eagle-chat doctor`: every check as a line, or as JSON with stable keys."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console

from eagle_chat import __version__
from eagle_chat.checks import Check, Status, check_disk, check_gpu, check_memory, check_software
from eagle_chat.checks_around import check_hub, check_speed, check_terminal
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE
from eagle_chat.streams import check_output, write, write_json
from eagle_chat.terminal import is_terminal

STYLES = {Status.PASS: "green", Status.WARN: "yellow", Status.FAIL: "bold red"}
INDENT = 21  # columns before what was found


def examine(*, perf: bool, check_hub: bool, as_json: bool) -> int:
    """Print what was found. The exit code says whether something fails."""
    check_output()
    found: list[Check] = []
    for check in _checks(perf=perf, ask_hub=check_hub, quiet=as_json):
        found.append(check)
        if not as_json:
            _show(check)
    failed = any(check.status is Status.FAIL for check in found)
    if as_json:
        checks = [
            {"id": each.id, "status": each.status.value, "found": each.found, "next": each.next_step or None}
            for each in found
        ]
        write_json({"version": __version__, "ok": not failed, "checks": checks})
    return EXIT_FAILURE if failed else EXIT_DONE


def _checks(*, perf: bool, ask_hub: bool, quiet: bool) -> Iterator[Check]:
    yield from check_software()
    yield from check_gpu()
    yield check_memory()
    yield from check_terminal()
    yield from check_hub(ask_hub)
    yield from check_disk()
    if perf:
        if not quiet:
            print("loading the default model…", file=sys.stderr)
        yield check_speed()


def _show(check: Check) -> None:
    first, *more = check.found.split("\n")
    lines = [f"{check.id:14}  {first}", *(" " * (INDENT - 5) + line for line in more)]
    if check.next_step:
        lines.append(f"{'':{INDENT - 5}}→ {check.next_step}")
    if is_terminal(sys.stdout):
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"[{STYLES[check.status]}]{check.status}[/]", end=" ")
    else:
        write(f"{check.status} ")
    write(f"{lines[0]}\n" + "".join(f"     {line}\n" for line in lines[1:]))
