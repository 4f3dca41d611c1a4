"""The operations a program may hold: a fixed table.

A saved program can only ever compute with what is listed here; none of it reads files, runs code or
leaves tensors elsewhere than in its own results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from sparsemble.errors import InputError

_ATEN_WORDS = """
    fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 real imag
    _weight_norm _weight_norm_interface sym_numel linear addmm matmul mm bmm __matmul__ einsum
    bilinear baddbmm dot mv outer conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d embedding embedding_bag lstm gru rnn_tanh rnn_relu lstm_cell gru_cell
    rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention softmax _softmax log_softmax
    _log_softmax batch_norm instance_norm group_norm layer_norm rms_norm local_response_norm
    max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d
    max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
    _upsample_nearest_exact2d grid_sampler_2d grid_sampler constant_pad_nd pad reflection_pad1d
    reflection_pad2d replication_pad1d replication_pad2d view reshape _unsafe_view permute
    transpose t flatten unflatten squeeze unsqueeze split split_with_sizes chunk unbind slice
    select narrow expand expand_as broadcast_to repeat repeat_interleave flip roll movedim
    moveaxis swapaxes swapdims numpy_T mT pixel_shuffle pixel_unshuffle channel_shuffle diagonal
    tensor_split unsafe_split unsafe_chunk view_as cat concat concatenate stack hstack vstack
    atleast_1d atleast_2d rot90 tile ravel unfold im2col col2im zeros ones full empty new_zeros
    new_ones new_full new_empty arange scalar_tensor rand randn randint eye lift_fresh_copy
    linspace zeros_like ones_like full_like empty_like rand_like randn_like bernoulli index
    index_select gather take_along_dim scatter scatter_add index_add index_copy index_put
    masked_fill where masked_select topk sort argsort argmax argmin one_hot bincount
    searchsorted mean sum prod amax amin max min any all var std var_mean linalg_vector_norm
    norm logsumexp cumsum cumprod median nansum add sub mul div rsub neg abs sign exp exp2 expm1
    log log2 log1p log10 sqrt rsqrt square pow reciprocal sin cos tan asin acos atan atan2 sinh
    cosh tanh sigmoid erf erfc floor ceil round trunc frac clamp clamp_min clamp_max maximum
    minimum fmod remainder floor_divide true_divide lerp addcmul addcdiv logaddexp xlogy isnan
    isinf isfinite nan_to_num hypot copysign relu relu6 gelu silu mish elu selu celu leaky_relu
    rrelu hardtanh hardswish hardsigmoid softplus softshrink hardshrink tanhshrink softsign
    threshold prelu glu log_sigmoid logit sinc eq ne lt le gt ge logical_and logical_or
    logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor __and__ __or__
    __xor__ isin dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout to
    _to_copy type_as contiguous clone alias detach float double copy fill zero tril triu
    sym_size tril_indices triu_indices meshgrid cdist cosine_similarity cross kron tensordot diff
    fft_fftn fft_ifftn fft_rfftn fft_irfftn matrix_H mH vdot cummax cummin logcumsumexp complex
    view_as_complex view_as_real _conj resolve_conj max_unpool2d max_unpool3d histc
"""
_ATEN = frozenset(_ATEN_WORDS.split())
"""Names of ATen's operations; a trailing underscore, of those that work in place, is left out."""

_PYTHON: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in ("getitem", "add", "sub", "mul", "floordiv", "mod", "neg", "pow", "truediv")
} | {
    "sym_max": torch.sym_max,
    "sym_min": torch.sym_min,
    "sym_int": torch.sym_int,
    "sym_float": torch.sym_float,
    "sym_not": torch.sym_not,
}
"""On sizes and on several results."""


def name_of(target: Any) -> str:
    """What the table calls an operation; an `InputError` if it is not in it.

    >>> name_of(torch.ops.aten.linear.default)
    'aten.linear.default'
    """
    for name, function in _PYTHON.items():
        if target is function:
            return name
    schema = getattr(target, "_schema", None)
    known, _, own = str(schema.name).partition("::") if schema else ("", "", str(target))
    if known != "aten" or not _is_listed(own):
        raise InputError(f"the operation {known or 'python'}.{own} is not one that programs know")
    return f"aten.{own}.{target._overloadname}"


def operation(name: str) -> Callable[..., Any]:
    """The operation that the table has under a name.

    >>> operation("aten.from_file.default")
    Traceback (most recent call last):
    ...
    sparsemble.errors.InputError: the operation aten.from_file.default is not one that programs know
    """
    if name in _PYTHON:
        return _PYTHON[name]
    parts = name.split(".")
    if len(parts) == 3 and parts[0] == "aten" and _is_listed(parts[1]):
        packet = getattr(torch.ops.aten, parts[1], None)
        if packet is not None and parts[2] in packet.overloads():
            found: Callable[..., Any] = getattr(packet, parts[2])
            return found
    raise InputError(f"the operation {name} is not one that programs know")


def _is_listed(name: str) -> bool:
    """Is it in the table, as it is or working in place?"""
    in_place = name.endswith("_") and not name.endswith("__")
    return name in _ATEN or (in_place and name[:-1] in _ATEN)
