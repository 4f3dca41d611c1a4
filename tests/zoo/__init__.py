"""Small networks of every kind that users write, each with what is known of it."""

from zoo.attacks import ATTACKS
from zoo.branched_images import BRANCHED_IMAGES
from zoo.cases import Case
from zoo.decoders import DECODERS
from zoo.images import IMAGES
from zoo.odd_weights import ODD_WEIGHTS
from zoo.others import OTHERS
from zoo.recurrent import RECURRENT
from zoo.recurrent_steps import RECURRENT_STEPS
from zoo.refused import REFUSALS
from zoo.residual_images import RESIDUAL_IMAGES
from zoo.several_inputs import SEVERAL_INPUTS
from zoo.torch_transformers import TORCH_TRANSFORMERS
from zoo.transformers import TRANSFORMERS

ALL = (
    *IMAGES,
    *RESIDUAL_IMAGES,
    *BRANCHED_IMAGES,
    *TRANSFORMERS,
    *DECODERS,
    *TORCH_TRANSFORMERS,
    *RECURRENT,
    *RECURRENT_STEPS,
    *OTHERS,
    *ODD_WEIGHTS,
    *SEVERAL_INPUTS,
    *ATTACKS,
)
CASES: dict[str, Case] = {case.name: case for case in ALL}
"""Networks whose layout is to be derived."""

LARGE = frozenset(
    (
        *("bottleneck_resnet", "densenet", "inception", "mixer"),
        *("bert", "vit", "swin", "perceiver", "conformer", "self_attention_gan", "video_gru"),
        *("torch_encoder_pre", "torch_encoder_time_major", "torch_transformer"),
    )
)
"""Those that take longest to trace, of operations that smaller ones are made of as well."""

REFUSED: dict[str, Case] = {case.name: case for case in REFUSALS}
"""Networks that run, but of which none may be derived; the note says why."""

__all__ = ["CASES", "LARGE", "REFUSED", "Case"]
