"""Processes: signals that ask a run to stop, and the end of who started it."""
