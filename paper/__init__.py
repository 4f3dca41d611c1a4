"""The paper's experiments: recipes, tables, searches for settings, results."""
