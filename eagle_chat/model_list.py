"""`eagle-chat models`: the catalogue, held against this machine and its caches."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from eagle_chat import smollm2
from eagle_chat.catalogue import Entry, best_method, catalogue
from eagle_chat.fitting import Place, fits, this_machine, tokens_for
from eagle_chat.hub_cache import cached
from eagle_chat.memory_need import Model, Placing, need
from eagle_chat.sizes import billions, in_words
from eagle_chat.streams import check_output, write, write_json

NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as it stands on this machine."""

    entry: Entry
    memory: dict[str, int]  # bytes with a head and a conversation, by format
    fitting: list[str]  # formats that fit now; the best first
    target_here: bool
    heads_here: dict[str, bool]  # by method

    @property
    def cached(self) -> str:
        """`yes`, `part` or nothing."""
        parts = [self.target_here, *(self.heads_here[method] for method in self.entry.heads)]
        return "yes" if all(parts) else "part" if self.target_here else NOTHING


def show_models(as_json: bool) -> None:
    """Print the table or its JSON."""
    check_output()
    place = this_machine()
    rows = [_row(entry, place) for entry in catalogue().values()]
    if as_json:
        write_json(_report(rows, place))
        return
    write(_table(rows))
    if place is not None:
        print(f"fits: of {in_words(place.free)} free ({place.name}), with a conversation", file=sys.stderr)


def _row(entry: Entry, place: Place | None) -> Row:
    model, method = Model(entry.shape, entry.parameters, entry.context), best_method(None, entry.alias)
    head = entry.shape.head_parameters(method)
    formats = place.formats if place is not None else {"bf16": Placing("cpu", 2)}
    memory = {name: need(model, way, head).total(tokens_for(model)) for name, way in formats.items()}
    fitting = [] if place is None else [n for n, way in formats.items() if fits(model, method, place, way)]
    target_here = smollm2.is_ready() if entry.embedded else cached(entry.target) is not None
    heads_here = {name: "/" not in head or cached(head) is not None for name, head in entry.heads.items()}
    return Row(entry, memory, fitting, target_here, heads_here)


def _table(rows: list[Row]) -> str:
    width = max(len(row.entry.alias) for row in rows)
    lines = [f"{'alias':{width}}  {'size':>5}  {'heads':14}  {'fits':4}  {'cached':6}  gated"]
    for row in rows:
        entry, fit = row.entry, row.fitting[0] if row.fitting else "no"
        gated = "yes" if entry.gated else NOTHING
        lines.append(
            f"{entry.alias:{width}}  {billions(entry.parameters):>5}  {_heads(entry):14}  "
            f"{fit:4}  {row.cached:6}  {gated}"
        )
    return "\n".join(lines) + "\n"


def _heads(entry: Entry) -> str:
    """The kinds of heads, in the width of two; our own may not be packaged."""
    listed = ", ".join(entry.heads) or NOTHING
    if len(listed) <= len("eagle2, eagle3"):
        return listed
    first, *more = entry.heads
    return f"{first}, {len(more)} more"


def _report(rows: list[Row], place: Place | None) -> dict[str, Any]:
    where = None if place is None else {"name": place.name, "free": place.free, "device": place.placing.kind}
    return {"machine": where, "models": [_entry(row) for row in rows]}


def _entry(row: Row) -> dict[str, Any]:
    entry = row.entry
    return {
        "alias": entry.alias,
        "target": entry.target,
        "family": entry.family,
        "parameters": entry.parameters,
        "context": entry.context,
        "licence": entry.licence,
        "gated": entry.gated,
        "heads": dict(entry.heads),
        "trees": {method: list(size) for method, size in entry.trees.items()},
        "memory": row.memory,
        "fits": row.fitting,
        "cached": {"target": row.target_here, **row.heads_here},
    }
