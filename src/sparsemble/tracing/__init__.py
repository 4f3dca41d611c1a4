"""Tracing: from any network and an example of its inputs to its layout and its program."""
