"""The method in a training loop of one's own: what hangs on the optimiser, and stage 2.

The loop stays as it is; only its optimiser is a sampler. `attach_prior` adds the prior's gradient
before every step, a `Collector` takes samples after it. `assemble` prunes them and makes them
compact and, if asked, retrains them; `retraining` lets the same loop do that.
"""

from sparsemble.loops.assembling import assemble
from sparsemble.loops.attached_prior import AttachedPrior, attach_prior
from sparsemble.loops.collector import Collector
from sparsemble.loops.retraining import retraining

__all__ = ["AttachedPrior", "Collector", "assemble", "attach_prior", "retraining"]
