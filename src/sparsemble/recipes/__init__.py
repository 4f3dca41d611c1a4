"""Recipes: everything a run is made of, as one validated value; TOML files and built-in ones."""

from sparsemble.recipes.files import builtin_names, load_recipe, recipe_toml
from sparsemble.recipes.recipe import Recipe

__all__ = ["Recipe", "builtin_names", "load_recipe", "recipe_toml"]
