"""The sections of a report: one file a theme, facts in, blocks out; templates lie beside."""
