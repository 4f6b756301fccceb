"""import_stablehlo: programs from outside as functions of ours."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax.export
import numpy as np
from jax.tree_util import tree_unflatten

from minixla.core.argument_kinds import checks_kinds
from minixla.core.errors import ImportError_, TransformError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import AnyShape, Shape, TupleShape, TupleValue
from minixla.core.tracebacks import api_boundary
from minixla.core.tracer import Tracer
from minixla.core.tracing import shape_of
from minixla.engine.random_keys import as_key, flatten, without_keys
from minixla.interop.module import Module
from minixla.interop.progress import shown_progress
from minixla.interop.reading import Opened, ProgramText, opened, read_module
from minixla.interop.refusals import SUBJECT
from minixla.interop.shardings import ShardyToo, refuse_shardings
from minixla.sharding.explicit import explicit
from minixla_ops.helpers.tuple_operations import tuple_leaves, without_tuples
from minixla_ops.programs.call import call


class ImportedFunction:
    """A function of a program from outside.

    Called with a value for each input, it returns the result, or a tuple of the results. Inputs
    and results of tuple types are Python tuples. It is an ordinary function: `mx.grad`, `mx.vmap`,
    `mx.jit`, `mx.reference` work on it.

    Attributes:
        graph: what it computes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.__name__ = graph.name

    @api_boundary
    def __call__(self, *operands: Any) -> Any:
        """The result, or the tuple of results."""
        results = self._flat(operands)
        return results[0] if len(results) == 1 else results

    def _flat(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        shapes = self.graph.input_shapes
        if len(operands) != len(shapes):
            problem = f"{len(operands)} arguments for {len(shapes)} inputs"
            details = [f"inputs ({', '.join(map(str, shapes))})"]
            advice = "Give a value for each input."
            raise explain(TransformError, self.graph.name, problem, details, advice)
        leaves: list[Any] = []
        for number, (operand, shape) in enumerate(zip(operands, shapes, strict=True)):
            leaves += self._leaves(operand, shape, f"argument {number}")
        results = iter(call(without_tuples(explicit(self.graph)), *leaves))
        return tuple([_structured(shape, results) for shape in self.graph.output_shapes])

    def _leaves(self, operand: Any, shape: AnyShape, place: str) -> list[Any]:
        """Return the arrays of an operand of a shape; tuples are flattened in order."""
        if not isinstance(shape, TupleShape):
            return [_fitting(operand, shape)]
        if isinstance(operand, (Tracer, TupleValue)) and shape_of(operand) is shape:
            return tuple_leaves(operand)
        if not isinstance(operand, (tuple, list)) or len(operand) != len(shape.elements):
            details = [f"{place} {_described(operand)}", f"input {shape}"]
            problem, advice = f"{place} is not a tuple of the input's shape", "Give a Python tuple."
            raise explain(TransformError, self.graph.name, problem, details, advice)
        return [
            leaf
            for index, (member, inner) in enumerate(zip(operand, shape.elements, strict=True))
            for leaf in self._leaves(member, inner, f"{place}[{index}]")
        ]

    def __repr__(self) -> str:
        return f"<imported {self.graph!r}>"

    def _repr_html_(self) -> str:
        return self.graph._repr_html_()


def _described(operand: Any) -> str:
    length = f" of length {len(operand)}" if isinstance(operand, (tuple, list)) else ""
    return f"is a {type(operand).__name__}{length}"


def _structured(shape: AnyShape, leaves: Iterator[Any]) -> Any:
    """Build a value of a shape from the next leaves; tuples are Python tuples."""
    if not isinstance(shape, TupleShape):
        return next(leaves)
    return tuple([_structured(element, leaves) for element in shape.elements])


def _fitting(operand: Any, shape: Any) -> Any:
    """A Python number in the type that the program takes; anything else as it is."""
    is_number = isinstance(operand, (bool, int, float, complex))
    if not is_number or not isinstance(shape, Shape) or shape.rank or shape_of(operand) is shape:
        return operand
    return np.asarray(operand).astype(shape.dtype)


class ImportedProgram(ImportedFunction):
    """A program from outside: its main function, and all functions by name.

    Attributes:
        graph: what the main function computes.
        functions: every function of the program.
    """

    def __init__(self, graph: Graph, functions: Mapping[str, Graph]) -> None:
        super().__init__(graph)
        self.functions = {name: ImportedFunction(function) for name, function in functions.items()}


class _ExportedProgram(ImportedProgram):
    """What jax.export made: takes and gives pytrees as the exported function does."""

    def __init__(self, program: ImportedProgram, exported: jax.export.Exported) -> None:
        self.__dict__.update(program.__dict__)
        self._exported = exported
        kept, graph = exported.module_kept_var_idx, program.graph
        fits = len(kept) == len(graph.inputs) and len(graph.outputs) == exported.out_tree.num_leaves
        if not fits or any(number >= exported.in_tree.num_leaves for number in kept):
            problem = "the program does not fit what jax.export says of its arguments and results"
            details = [
                f"program {graph!r}",
                f"arguments {exported.in_tree}",
                f"kept arguments {kept}",
            ]
            advice = "It is damaged, or has ordered side effects: leave prints and callbacks out."
            raise explain(ImportError_, SUBJECT, problem, details, advice)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results in the structure in which the exported function gives them."""
        exported = self._exported
        leaves, tree = flatten((args, kwargs))
        if without_keys(tree) != exported.in_tree:
            problem = "the arguments have another structure than the exported function's"
            details = [f"arguments {tree}", f"exported {exported.in_tree}"]
            advice = "Give what the exported function took."
            raise explain(TransformError, self.graph.name, problem, details, advice)
        kept = [leaves[number] for number in exported.module_kept_var_idx]
        pairs = zip(self._flat(kept), exported.out_avals, strict=True)
        results = [as_key(result, described.dtype) for result, described in pairs]
        return tree_unflatten(exported.out_tree, results)


@api_boundary
@checks_kinds
def import_stablehlo(
    source: ProgramText | jax.export.Exported,
    function: str | None = None,
    *,
    shardings: ShardyToo = "keep",
) -> ImportedProgram:
    """A StableHLO program as a function of ours.

    Args:
        source: MLIR text, bytecode, a portable artifact (of this or an older version), bytes that
            `mx.export` or jax.export serialized, a path of a file that holds one of these (a
            string that ends in .mlir, .mlirbc, .bc, .bin, .stablehlo or .vhlo is a path), or a
            `jax.export.Exported`.
        function: the name of the main function; default: `main`, or the only public one.
        shardings: what to do with annotations that say how values lie over devices: `keep` keeps
            Shardy's (`sdy.sharding`, `sdy.sharding_constraint` ...), in the graph, and raises
            ImportError_ at others (`mhlo.sharding`, custom_call @Sharding) in a program that is
            not for one device; `refuse` raises at all of them, `drop` leaves them out.

    Returns:
        A callable with `graph`, the main function's Graph, and `functions`, every function of the
        module by name. It takes and returns arrays one by one, and Python tuples where the program
        has tuples. A function from jax.export takes and returns the exported function's pytrees.

    Raises:
        ImportError_: `source` is no such program, or has what XLA's operation set does not have;
            the message names the line and column, what was found and what to do.

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
        program = opened(source)
        module = _translated(program, shardings, say)
    module.lost.warn(SUBJECT)
    graphs, exported = module.graphs, program.exported
    imported = ImportedProgram(graphs[_main(module, function)], graphs)
    return imported if exported is None else _ExportedProgram(imported, exported)


def _translated(found: Opened, shardings: ShardyToo, say: Callable[[str], None]) -> Module:
    """The module with its graphs."""
    (written, constants, *_), exported = found
    program = read_module(written)
    if shardings != "drop":
        refuse_shardings(program, written, "sdy." if shardings == "keep" else "none")
    keeps = shardings == "keep" and b"sdy" in written
    module = Module(program, exported and _platform(exported), constants, keeps)
    module.translated(say)
    return module


def _platform(exported: jax.export.Exported) -> int | None:
    """Which of several platforms runs here; the first where none does."""
    names = [*exported.platforms]
    if len(names) == 1:
        return None
    here = jax.default_backend()
    platforms = [here, "cuda", "rocm"] if here == "gpu" else [here]
    return next((names.index(name) for name in platforms if name in names), 0)


def _main(module: Module, wanted: str | None) -> str:
    names = list(module.graphs)
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
    raise explain(ImportError_, SUBJECT, problem, details, "Name one by function=.")
