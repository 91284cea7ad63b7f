"""Loss and agreement of a training run as an SVG file: two panels, one line for each unrolled step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 860, 360  # of the picture
PANEL_WIDTH, PANEL_HEIGHT = 360, 260
LEFT, TOP, GAP = 50, 50, 70
COLOURS = ("#0b84a5", "#f6a01a", "#6f4e7c", "#9dd866", "#ca472f", "#8dddd0", "#b3688c", "#555555")


def write_plot(records: list[dict[str, Any]], file: Path) -> None:
    """Draw the records of a log (see TrainingLog). Validation is drawn as dots."""
    steps = [record for record in records if record["event"] == "step"]
    looks = [record for record in records if record["event"] == "validation"]
    parts = [
        _panel(steps, looks, field, title, LEFT + i * (PANEL_WIDTH + GAP))
        for i, (field, title) in enumerate(
            (("loss", "cross-entropy, nats"), ("agreement", "same best token as the target, share"))
        )
    ]
    depths = max((len(record["loss"]) for record in (*steps, *looks)), default=0)
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}{_legend(depths)}</svg>\n',
        encoding="utf-8",
    )


def _panel(steps: list[dict[str, Any]], looks: list[dict[str, Any]], field: str, title: str, x: float) -> str:
    points = [(record["pairs"], value) for record in (*steps, *looks) for value in record[field]]
    most_pairs = max((pairs for pairs, _ in points), default=1) or 1
    low, high = 0.0, max((value for _, value in points), default=1.0) or 1.0

    def place(pairs: float, value: float) -> tuple[float, float]:
        return (
            x + PANEL_WIDTH * pairs / most_pairs,
            TOP + PANEL_HEIGHT * (1 - (value - low) / (high - low)),
        )

    drawn = [f'<text x="{x}" y="{TOP - 14}" font-weight="bold">{title}</text>']
    for i in range(5):
        value = low + (high - low) * i / 4
        y = place(0, value)[1]
        drawn.append(f'<path d="M{x} {y:.1f}h{PANEL_WIDTH}" stroke="#ddd"/>')
        drawn.append(f'<text x="{x - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for share in (0, 0.5, 1):
        at = x + PANEL_WIDTH * share
        label = f"{most_pairs * share / 1e6:.2g} M"
        drawn.append(f'<text x="{at}" y="{TOP + PANEL_HEIGHT + 18}" text-anchor="middle">{label}</text>')
    for depth, colour in enumerate(COLOURS):
        line = [
            place(record["pairs"], record[field][depth]) for record in steps if depth < len(record[field])
        ]
        if line:
            path = " ".join(f"{px:.1f},{py:.1f}" for px, py in line)
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-opacity="0.6"/>')
        for record in looks:
            if depth < len(record[field]):
                px, py = place(record["pairs"], record[field][depth])
                drawn.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>')
    return "".join(drawn)


def _legend(depths: int) -> str:
    y = TOP + PANEL_HEIGHT + 42
    drawn = [f'<text x="{LEFT}" y="{y}">pairs trained on; lines: training, dots: held out; depth:</text>']
    for depth in range(min(depths, len(COLOURS))):
        x = LEFT + 360 + 40 * depth
        drawn.append(f'<circle cx="{x}" cy="{y - 4}" r="5" fill="{COLOURS[depth]}"/>')
        drawn.append(f'<text x="{x + 9}" y="{y}">{depth + 1}</text>')
    return "".join(drawn)
