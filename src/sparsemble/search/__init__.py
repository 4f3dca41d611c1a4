"""Searches: many recipes run beside each other, and the best of them found."""
