"""Operations that only move data: they are done to the labels themselves, and need no rules.

Heads, flattened channels, fused projections and shuffled channels come out of this alone.
"""

from __future__ import annotations

_MOVES_WORDS = """
    view reshape _unsafe_view permute transpose t flatten unflatten squeeze unsqueeze split
    split_with_sizes chunk unbind slice select narrow expand expand_as broadcast_to repeat
    repeat_interleave flip movedim moveaxis swapaxes swapdims numpy_T mT pixel_shuffle
    pixel_unshuffle channel_shuffle diagonal tensor_split unsafe_split unsafe_chunk view_as
    cat concat concatenate stack hstack vstack atleast_1d atleast_2d rot90 tile ravel
"""
MOVES = frozenset(_MOVES_WORDS.split())

_ALIKE_WORDS = """
    zeros ones full empty new_zeros new_ones new_full new_empty rand randn
"""
ALIKE = frozenset(_ALIKE_WORDS.split())
"""Operations that make a tensor of nothing, whose elements are all alike: they belong to the units
they meet."""
CREATES = ALIKE | {"arange", "scalar_tensor", "randint", "eye", "linspace"}
"""All operations that make a tensor of nothing."""
