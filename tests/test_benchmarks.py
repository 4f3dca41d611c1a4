"""Benchmarks are run by hand: at least what they measure must still be there."""

from __future__ import annotations

import lstm
import torch
from language_networks import dense

from sparsemble.layouts import layout_of
from sparsemble.members import Member


def test_the_chain_that_is_measured_takes_steps_and_the_products_multiply():
    network = dense(4, dropout=0.3)
    for temperature in (1e-4, 0.0):
        member = Member.dense(network, layout_of(network))
        chain = lstm.chain_of(member, temperature=temperature, autocast=False)
        lstm.advancing(chain)()
        assert chain.step == lstm.STEPS
    lstm.products(4, torch.float32)()
