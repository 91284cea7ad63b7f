"""The calibration strip: of the tokens drafted with so much confidence, how many the target took."""

from eagle_chat.calibration import BINS, Calibration
from eagle_chat.layout.rows import Row, fitting

HEIGHT = 3  # rows
LABEL, COLUMN = 14, 6  # cells
FEW = 20  # drafted tokens below which a share says little: it is marked with a tilde


def strip(counts: Calibration, width: int, ascii_only: bool = False) -> list[Row]:
    """Confidence, the share that was accepted, of how many: in tens of percent, or in twenties if narrow."""
    together = 1 if width >= LABEL + COLUMN * BINS else 2
    asked, accepted = _merged(counts.asked, together), _merged(counts.accepted, together)
    step = 100 * together // BINS
    first: Row = [(f"{f'<{step}':>{COLUMN}}", "label")]
    confidences = [first, *_labels([f"{step * place}+" for place in range(1, len(asked))])]
    unknown = "-" if ascii_only else "–"
    shares: list[Row] = []
    for took, of in zip(accepted, asked, strict=True):
        text = f"{'~' if of < FEW else ''}{round(100 * took / of)}" if of else unknown
        shares.append([(f"{text:>{COLUMN}}", "figure" if of >= FEW else "label")])
    totals: list[Row] = [[(f"{of:>{COLUMN}}", "value")] for of in asked]
    parts = ((" confidence %", confidences), (" accepted %", shares), (" of drafted", totals))
    return [fitting([[(f"{name:<{LABEL}}", "label")], *cells], width) for name, cells in parts]


def _labels(texts: list[str]) -> list[Row]:
    return [[(f"{text:>{COLUMN}}", "label")] for text in texts]


def _merged(numbers: list[int], together: int) -> list[int]:
    return [sum(numbers[place : place + together]) for place in range(0, len(numbers), together)]
