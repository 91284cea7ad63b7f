"""A lossless speculative decoding engine for batch size 1: token ids in, token ids and rounds out.

    engine = Engine(StockTarget(model), {"eagle2": Eagle2(head, nodes=8, depth=3, beam=4)})
    for event in engine.generate(prompt_ids, GenerationSettings(temperature=0.7, seed=1), method="eagle2"):
        ...

It knows torch and transformers; it knows no tokenizer, no prompt format and no terminal.

Words. *Committed* tokens are final; the last one is *pending*: final, but not in the KV cache yet. It is the
*root* of the next *draft tree*. A *round* is propose, verify, accept, keep: one target forward. Drafted nodes
that the target confirms are *accepted*; the *bonus* is the target's own token that ends each round. A
*feature* is the hidden state a head reads; a node's *confidence* is the drafter's probability of it given its
parent, its *value* the product along its path.

Axes. N tree nodes, V vocabulary, D draft vocabulary, H hidden size, F feature width, T committed tokens, K
beam. p is the target's probability, q the drafter's.
"""

from engine.checkpoints import load_draft_head, load_eagle_head, recognise_head, shares_embedding
from engine.checkpoints.token_ids import read_token_ids
from engine.costs import Costs, measure_costs
from engine.drafters import Drafter, NoDrafter
from engine.drafters.ablation import Ablation
from engine.drafters.calibration import Calibration
from engine.drafters.eagle import CHAIN, PUBLISHED, Eagle
from engine.drafters.eagle2 import Eagle2, check_tree_size
from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead
from engine.drafters.grafted import Grafted
from engine.drafters.hydra import Hydra, HydraHeads
from engine.drafters.lookahead import Lookahead
from engine.drafters.lookup import PromptLookup
from engine.drafters.medusa import MEDUSA_TREE, Medusa, MedusaHeads, medusa_tree
from engine.drafters.model import DraftModel, SampledDraftModel
from engine.drafters.sizing import TreeSizing
from engine.drafters.trimmed import trimmed
from engine.errors import (
    CheckpointError,
    CorruptFileError,
    EngineError,
    LoadError,
    PromptTooLongError,
    SettingsError,
    UnsupportedModelError,
)
from engine.generate import Engine, Prefill, Round, Timing
from engine.lean import LeanTarget
from engine.load import dtype_name, load_model, make_target, pick_device, pick_devices, pick_dtype
from engine.near_tie import NEAR_TIE, fp32_gap, near_tie_limit
from engine.quantized import quantization_of, quantized_share
from engine.sampling import GenerationSettings, Sampler
from engine.target import StockTarget, Target
from engine.threads import pick_threads
from engine.tree import DraftTree, Growth, Sizing

__all__ = [
    "CHAIN",
    "MEDUSA_TREE",
    "NEAR_TIE",
    "PUBLISHED",
    "Ablation",
    "Calibration",
    "CheckpointError",
    "CorruptFileError",
    "Costs",
    "DraftModel",
    "DraftTree",
    "Drafter",
    "Eagle",
    "Eagle2",
    "Eagle3Head",
    "EagleHead",
    "Engine",
    "EngineError",
    "GenerationSettings",
    "Grafted",
    "Growth",
    "Hydra",
    "HydraHeads",
    "LeanTarget",
    "LoadError",
    "Lookahead",
    "Medusa",
    "MedusaHeads",
    "NoDrafter",
    "Prefill",
    "PromptLookup",
    "PromptTooLongError",
    "Round",
    "SampledDraftModel",
    "Sampler",
    "SettingsError",
    "Sizing",
    "StockTarget",
    "Target",
    "Timing",
    "TreeSizing",
    "UnsupportedModelError",
    "check_tree_size",
    "dtype_name",
    "fp32_gap",
    "load_draft_head",
    "load_eagle_head",
    "load_model",
    "make_target",
    "measure_costs",
    "medusa_tree",
    "near_tie_limit",
    "pick_device",
    "pick_devices",
    "pick_dtype",
    "pick_threads",
    "quantization_of",
    "quantized_share",
    "read_token_ids",
    "recognise_head",
    "shares_embedding",
    "trimmed",
]
