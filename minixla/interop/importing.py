"""`import_stablehlo`: StableHLO programs as functions."""

from collections.abc import Sequence

import jax.export

from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import ImportError_, explain
from minixla.core.tracebacks import api_boundary
from minixla.engine.readers import specialized
from minixla.interop.imported import ExportedProgram, ImportedProgram
from minixla.interop.module import Module
from minixla.interop.progress import shown_progress
from minixla.interop.reading import Opened, ProgramText, opened, read_module
from minixla.interop.refusals import SUBJECT
from minixla.interop.shardings import ShardyToo, refuse_shardings
from minixla.interop.symbolic import SymbolicFunction, SymbolicProgram


@api_boundary
@checks_kinds
def import_stablehlo(
    source: ProgramText | jax.export.Exported,
    function: str | None = None,
    *,
    shardings: ShardyToo = "keep",
) -> ImportedProgram:
    """Import a StableHLO program as a function.

    Args:
        source: MLIR text; bytecode; a portable artifact of this or an older version; bytes that
            `mx.export` or jax.export serialized; the path of a file with one of these (a string
            that ends in .mlir, .mlirbc, .bc, .bin, .stablehlo or .vhlo); or a
            `jax.export.Exported`.
        function: the name of the main function; default: `main`, or the only public one.
        shardings: what to do with shardings of values: `keep` keeps Shardy's (`sdy.sharding`,
            `sdy.sharding_constraint` ...) in the graph. It raises ImportError_ for others
            (`mhlo.sharding`, custom_call @Sharding) unless the program is for one device.
            `refuse` raises an error for all of them, and `drop` removes them.

    Returns:
        A callable with `graph`, the main function's Graph, and `functions`, every function of the
        module by name. It takes and returns arrays one by one, and Python tuples where the program
        has tuples. A function from jax.export takes and returns the exported function's pytrees.

    Raises:
        ImportError_: `source` is not such a program, or uses something that XLA's operation set
            lacks; the message gives the line and column, the problem and a fix.

    Warns:
        UserWarning: the program has attributes that graphs do not hold, such as
            `mhlo.frontend_attributes`; the message names them and their lines.

    Example:
        >>> text = jax.jit(lambda x: x + 1).lower(np.float32(0)).as_text()
        >>> mx.import_stablehlo(text)(np.float32(2))
        Array(3., dtype=float32)
    """
    with shown_progress(SUBJECT) as say:
        say("reading")
        program = _Program(opened(source), shardings)
        module = program.module(program.written)
        name = _main(module, function)
        main = SymbolicFunction(module, name, program.exported, program.specialized)
        if main.is_symbolic:
            return SymbolicProgram(main, module)
        if module.has_symbolic_sizes or b"shape_assertion" in program.written:
            return main.with_declared_types()
        try:
            module.translated(say)
        except ImportError_:
            refined = main.with_inner_sizes()
            if refined is None:
                raise
            return refined
    return program.imported(module, name)


class _Program:
    """A StableHLO program from which graphs are made."""

    def __init__(self, source: Opened, shardings: ShardyToo) -> None:
        (self.written, self._constants, *_), self.exported = source
        self._shardings: ShardyToo = shardings

    def module(self, written: bytes) -> Module:
        """Return the module of bytecode, before its translation."""
        program = read_module(written)
        if self._shardings != "drop":
            refuse_shardings(program, written, "sdy." if self._shardings == "keep" else "none")
        keeps = self._shardings == "keep" and b"sdy" in written
        platform = self.exported and _platform(self.exported)
        return Module(program, platform, self._constants, keeps)

    def imported(self, module: Module, name: str) -> ImportedProgram:
        """Return the program of a translated module with a main function."""
        module.lost.warn(SUBJECT)
        program = ImportedProgram(module.graphs[name], module.graphs)
        return program if self.exported is None else ExportedProgram(program, self.exported)

    def specialized(self, name: str, types: Sequence[str]) -> ImportedProgram:
        """Return the program of a function whose arguments have the given MLIR types."""
        module = self.module(specialized(self.written, name, types))
        module.translated()
        return self.imported(module, name)


def _platform(exported: jax.export.Exported) -> int | None:
    """Return the index of the platform that runs here, or 0 if none does."""
    names = [*exported.platforms]
    if len(names) == 1:
        return None
    here = jax.default_backend()
    platforms = [here, "cuda", "rocm"] if here == "gpu" else [here]
    return next((names.index(name) for name in platforms if name in names), 0)


def _main(module: Module, wanted: str | None) -> str:
    names = list(module.functions)
    if wanted is None:
        seen = {name: module.functions[name].attributes.get("sym_visibility", "") for name in names}
        public = [name for name in names if str(seen[name]) in ("", '"public"')]
        choices = ["main"] if "main" in names else public or names
        if len(choices) == 1:
            return choices[0]
        problem = "the module has several functions and none is called main"
    elif wanted in names:
        return wanted
    else:
        problem = f"the module has no function {wanted!r}"
    details = [f"functions: {', '.join(names)[:500]}"]
    raise explain(ImportError_, SUBJECT, problem, details, "Name one with function=.")
