"""Training a draft head for any target: the target writes conversations, and the head learns to follow it.

    corpus = Corpus(folder / "corpus")
    batch = Synthesis(model, layout, taps=(-1,)).batch(0)
    for written in batch:
        ...
    corpus.add(0, batch.conversations())
    settings = TrainingSettings(pairs=1_000_000)
    trainer = Trainer(network, target.embedding, lm_head, corpus, settings, folder, draft_vocab)
    for event in trainer.run():
        ...
    trainer.load_best()
    write_head(folder, network, draft_vocab, target.vocabulary, target.context)

Words. A *pair* joins the feature of a token with the next token, as everywhere in this package; a *step* is
one guess of many, step j from what the head knows j tokens before. *Agreement* is the share of pairs
where head and target have the same best token.
"""

from engine.training.corpus import Conversation, Corpus
from engine.training.cost import Sizes, Speeds, expected_sizes, measure_speeds
from engine.training.draft_model import DraftModelNetwork
from engine.training.export import write_head
from engine.training.heads import HydraNetwork, MedusaNetwork
from engine.training.network import DraftNetwork
from engine.training.objective import Measured, Objective
from engine.training.settings import TrainingSettings
from engine.training.synthesis import ChatLayout, Role, Style, Synthesis, SynthesisBatch
from engine.training.trainer import Trained, Trainer, Validated
from engine.training.unrolled import Eagle3Network, EagleNetwork
from engine.training.vocabulary import draft_vocabulary, share_covered

__all__ = [
    "ChatLayout",
    "Conversation",
    "Corpus",
    "DraftModelNetwork",
    "DraftNetwork",
    "Eagle3Network",
    "EagleNetwork",
    "HydraNetwork",
    "Measured",
    "MedusaNetwork",
    "Objective",
    "Role",
    "Sizes",
    "Speeds",
    "Style",
    "Synthesis",
    "SynthesisBatch",
    "Trained",
    "Trainer",
    "TrainingSettings",
    "Validated",
    "draft_vocabulary",
    "expected_sizes",
    "measure_speeds",
    "share_covered",
    "write_head",
]
