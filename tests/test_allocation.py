"""Freed memory is kept while asked for: pages do not have to be handed out again."""

from __future__ import annotations

import resource

import pytest
import torch

from sparsemble.allocation import _glibc, keeping_freed_memory

pytestmark = pytest.mark.skipif(_glibc() is None, reason="needs glibc's allocator")

TENSOR = 64 << 20
"""Bytes: more than what glibc ever keeps by itself."""
TIMES = 8


def faults_of_blocks() -> int:
    """Pages handed out while a large tensor is made and freed again and again."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(TIMES):
        torch.ones(TENSOR // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_blocks_are_handed_out_by_the_system_once():
    elsewhere = faults_of_blocks()
    with keeping_freed_memory():
        faults_of_blocks()
        kept = faults_of_blocks()
    assert kept < elsewhere / 4


def test_afterwards_blocks_are_given_back():
    with keeping_freed_memory():
        faults_of_blocks()
        kept = faults_of_blocks()
    assert faults_of_blocks() > 4 * kept + TIMES
