"""On which of the devices that may be used a target is, and what to tell the user about that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagle_chat.fitting import place_on, placement
from eagle_chat.options import Options

if TYPE_CHECKING:
    import torch

JOINED = "+"  # between the names of devices that share a target


@dataclass(frozen=True)
class Spread:
    """Devices of a target."""

    home: torch.device  # of all that is in no layer
    layers: tuple[torch.device, ...] = ()  # by layer, where these are not all at home

    @property
    def name(self) -> str:
        """`cuda:0`, or `cuda:0+cuda:1`."""
        return JOINED.join(dict.fromkeys(map(str, (self.home, *self.layers))))

    @property
    def notes(self) -> list[str]:
        """How a split target is divided; its price is not seen elsewhere."""
        if not self.layers:
            return []
        counts = {device: self.layers.count(device) for device in dict.fromkeys(self.layers)}
        shares = " and ".join(f"{count} on {device}" for device, count in counts.items())
        return [f"No GPU alone holds it: {shares} of {len(self.layers)} layers, and no CUDA graphs."]


def spread_over(options: Options, dtype: torch.dtype, devices: Sequence[torch.device]) -> Spread:
    """By what is free now; a model of unknown size is on the device with the most."""
    place = place_on(devices, dtype, options.quant.value) if len(devices) > 1 else None
    if place is None:
        return Spread(devices[0])
    found = placement(options, place)
    if found is None:
        return Spread(devices[place.each.index(max(place.each))])
    layers = tuple(devices[number] for number in found.layers)
    return Spread(devices[found.home], layers if found.is_split else ())
