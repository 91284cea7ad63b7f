"""`eagle-chat study`: the figures of the EAGLE-2 paper, measured and drawn live on this machine."""

from enum import StrEnum


class What(StrEnum):
    """The figures."""

    CALIBRATION = "calibration"
    POSITIONS = "positions"
    ABLATION = "ablation"
    SIZE = "size"
    VOCABULARY = "vocabulary"
