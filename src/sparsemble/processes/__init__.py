"""Processes: runs beside each other, and signals that ask one to stop."""
