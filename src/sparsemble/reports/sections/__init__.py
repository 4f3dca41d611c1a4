"""The parts of a report's page: one file a theme, values in, HTML out."""
