"""Sparse structured ensembles: many small networks for the price of one."""
