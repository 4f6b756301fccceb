"""Select a function by the platform of the lowering: `jax.lax.platform_dependent`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from minixla.bridge.passing import PASS, passes
from minixla.core.attributes import Attribute, attribute
from minixla.core.errors import UnsupportedError, explain
from minixla.core.tracing import Trace
from minixla.transforms.control_flow import choose_branch
from minixla_ops.control_flow.conditional import Conditional
from minixla_ops.programs.call import Call

#: A platform name without a backend, for which JAX's lowering needs no backend libraries.
PORTABLE = "minixla"
#: JAX's names for each of our platforms with several.
_NAMES = {"gpu": ("cuda", "rocm", "gpu")}


def lowering_platform(emit: Any, subject: str) -> str:
    """Return the platform of the text that is emitted, or JAX's default platform.

    Raises:
        UnsupportedError: JAX lowers the program for several platforms at once.
    """
    if emit.platform is None and emit.calls_host:
        problem = "it differs between platforms, but the program is for several at once"
        raise explain(
            UnsupportedError, subject, problem, advice="Lower for one platform at a time."
        )
    return emit.platform or jax.default_backend()


class PlatformConditional(Conditional):
    """A conditional whose branch is selected when it is lowered; its index is not read.

    Attributes:
        platforms: the names of each branch's platforms; None for the default branch.
    """

    builder_name, hlo_name = "platform_dependent", "conditional"
    platforms: Any = attribute(Attribute(), hlo=None)

    def number_for(self, platform: str) -> int:
        """Return the index of the branch for a platform."""
        names = _NAMES.get(platform, (platform,))
        for number, group in enumerate(self.platforms):
            if group is not None and any(name in group for name in names):
                return number
        if None in self.platforms:
            return self.platforms.index(None)
        problem = f"no branch matches the platform {platform}"
        listed = ", ".join(name for group in self.platforms for name in group)
        advice = "Add a branch for it, or default=..."
        raise explain(
            UnsupportedError, self.builder_name, problem, [f"platforms: {listed}"], advice
        )

    def chosen(self, branch_index):
        return self.number_for(jax.default_backend())

    def stablehlo(self, emit, operands, shapes, results):
        branch = self.branches[self.number_for(lowering_platform(emit, self.builder_name))]
        return Call(branch).stablehlo(emit, operands[1:], shapes[1:], results)


def by_platform(
    platforms: Any, functions: Sequence[Callable[..., Any]], operands: tuple[Any, ...]
) -> Any:
    """Return the results of the function for the platform of the program.

    Args:
        platforms: for each function the names of its platforms, or None.
        functions: functions of the operands, with results of equal types.
        operands: arrays.
    """
    named = {f"branch {number}": function for number, function in enumerate(functions)}
    conditional = partial(PlatformConditional, platforms=platforms)
    return choose_branch("platform_dependent", np.int32(0), named, operands, conditional)


def platform_index(ours: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Process JAX's `platform_index`, which only conditionals read; ours do not read it."""
    return PASS if passes(ours, args) else ours.lift(np.int32(0))
