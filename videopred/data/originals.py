"""The frames that a recipe's tokens were made of: what is scored and shown, where a model learned from tokens."""

from pathlib import Path

from videopred import config
from videopred.data import Recipe
from videopred.data.encoded import MANIFEST, EncodedConfig, read


def frames_of(recipe: Recipe) -> Recipe:
    """The recipe of the frames where `recipe` holds their tokens; else itself.

    Raises ValueError where the tokens, and with them what they were made of, are not there.
    """
    if not isinstance(recipe, EncodedConfig):
        return recipe
    manifest = Path(recipe.root) / MANIFEST
    if not manifest.is_file():
        raise ValueError(
            f"recipe {recipe.name!r} holds tokens, and {manifest}, which names the recipe of their frames, is missing; "
            f"give a recipe of frames"
        )
    return config.from_dict(Recipe, read(manifest, "recipe")["recipe"], "recipe")
