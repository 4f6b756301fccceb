"""Legalization: a pass that replaces operations that a platform computes incorrectly or slowly.

Each platform has a package of rules, such as `minixla.legalize.cpu`, with one file per topic.
"""

from __future__ import annotations

from minixla.legalize.registry import Rule, Target, disabled, legalize, platform_of, rules_of
from minixla.legalize.rewriting import legalized, legalized_text

__all__ = ["Rule", "Target", "disabled", "legalize", "legalized"]
__all__ += ["legalized_text", "platform_of", "rules_of"]


def __dir__() -> list[str]:
    return __all__
