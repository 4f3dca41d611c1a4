"""The two stages as plain functions, each arrow a value that can be saved and fed in by hand.

Stage 1: `draw_samples` runs chains and collects posterior samples. Stage 2: `prune` finds masks,
`members.compact` makes a sample physically smaller, `retrain` moves it to the MAP estimate.
"""

from sparsemble.stages.callback import Callback, Callbacks
from sparsemble.stages.chain import Chain
from sparsemble.stages.chain_state import ChainState
from sparsemble.stages.collection import collection_steps
from sparsemble.stages.divergence import DivergenceSettings
from sparsemble.stages.history import EpochRecord, History, Jump, Rollback, SampleRecord, Shed
from sparsemble.stages.pruning import PruneSettings, prune
from sparsemble.stages.retraining import Retraining, RetrainSettings, retrain
from sparsemble.stages.samples import Sample
from sparsemble.stages.sampling import ChainSettings, Drawing, draw_samples
from sparsemble.stages.subject import Subject

__all__ = [
    "Callback",
    "Callbacks",
    "Chain",
    "ChainSettings",
    "ChainState",
    "DivergenceSettings",
    "Drawing",
    "EpochRecord",
    "History",
    "Jump",
    "PruneSettings",
    "RetrainSettings",
    "Retraining",
    "Rollback",
    "Sample",
    "SampleRecord",
    "Shed",
    "Subject",
    "collection_steps",
    "draw_samples",
    "prune",
    "retrain",
]
