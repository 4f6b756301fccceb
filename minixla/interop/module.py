"""The functions of an MLIR module as graphs."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar

from jax.extend.mlir import ir

from minixla.collecting import collection_paused
from minixla.core.attributes import Attribute
from minixla.core.errors import ImportError_, MinixlaError, explain
from minixla.core.graph import Graph, Instruction, Value
from minixla.core.operation import Names
from minixla.core.shapes import AnyShape
from minixla.core.source import SOME_IMPORTED, Source
from minixla.interop.building import Builder
from minixla.interop.calls import CALLS
from minixla.interop.chlo import CHLO
from minixla.interop.lost import Lost
from minixla.interop.mesh_axes import groups_of_axes
from minixla.interop.operations import SIMPLE, TABLE, Translation
from minixla.interop.refusals import ADVICE, DIALECTS, SUBJECT, callees_first, located
from minixla.interop.sdy import SDY, Shardings, meshes_of
from minixla.interop.step import Step
from minixla.interop.values import (
    BLOCK,
    UnreadableError,
    shape_of_type,
    source_of,
    sources_of,
    unbounded_sizes,
)
from minixla.sharding.mesh import Mesh

#: The translation of each operation, by its full name.
TRANSLATIONS: dict[str, Translation] = {**TABLE, **CALLS, **CHLO, **SDY}
# The prefix of meshes and shardings, which do not change what a program computes.
_IGNORED = "sdy."
_PAIRS = "Write the operation itself in place of async_start and async_done."
#: Operations of StableHLO that XLA's programs lack, and advice.
_WITHOUT = {"stablehlo.async_start": _PAIRS, "stablehlo.async_done": _PAIRS}
_LINE = ir.FileLineColLoc
_TERMINATORS = ("func.return", "stablehlo.return", "chlo.return", "sdy.return")
_TYPES = (
    "Programs hold arrays of XLA's element types, whose dimensions are static or bounded "
    "(tensor<?xf32, #stablehlo.bounds<8>>), tuples and tokens; export for fixed shapes."
)
# The largest number of operations of a region whose graph may be shared.
_SHORT = 8
# The message of MLIR's Python bindings for attributes of some element types.
_NO_CLASS = "Can't cast unknown element type"
_FLATTER = (
    "Inline functions that are called once (MLIR's pass inline), or write the repetition "
    "as stablehlo.while."
)


def _declared(type_: Any) -> AnyShape | None:
    try:
        return shape_of_type(type_)
    except ValueError:  # sizes that only constants determine
        return None


class Module:
    """A module under translation."""

    translations = TRANSLATIONS
    is_hlo: ClassVar[bool] = False
    #: True if functions that JAX lowers to programs become one operation.
    recognises = True
    #: True if this process traced the program, so that the source files it names are the user's.
    is_traced = False
    #: The full names of operations whose regions read outside constants directly, without copying
    #: them.
    sharing: ClassVar[tuple[str, ...]] = ()
    #: The maximum nesting of calls or regions, over which transformations recurse.
    deepest: ClassVar[int] = 100

    def __init__(
        self,
        module: Any,
        platform: int | None = None,
        constants: dict[str, Any] | None = None,
        keeps_shardings: bool = False,
    ) -> None:
        #: The index of the platform, among those that jax.export wrote it for.
        self._platform = platform
        #: The bytes of constants that are stored as resources, by name.
        self.constants = constants or {}
        #: The shardings of values, if they are kept.
        self.shardings = Shardings(module) if keeps_shardings else None
        #: The translated functions, by name.
        self.graphs: dict[str, Graph] = {}
        #: Returns the shape for an MLIR type; None for other types.
        self.declared = cache(_declared)
        #: Values of attributes, by their kind and the hash of MLIR's attribute, its address.
        self.values: dict[tuple[Attribute, int], Any] = {}
        #: The attributes that the graphs do not hold.
        self.lost = Lost()
        # By the hash of the location's attribute.
        self._sources: dict[int, Source | None] = {}
        # By their properties: the instruction for an operation, and the graph of a region.
        self._forms: dict[Any, Instruction] = {}
        self._regions: dict[Any, Graph] = {}
        self._nesting = 0
        self._module = module
        self.functions = _functions(module)

    def translated(self, say: Callable[[str], None] | None = None) -> dict[str, Graph]:
        """Translate and return the graphs of all functions; callees come before callers.

        Args:
            say: called with the name of the next step.
        """
        self.lost.of_module(self._module)
        with collection_paused():
            for name in self._order():
                if say is not None:
                    say(f"function {name}")
                self.graphs[name] = self._function(name)
        return self.graphs

    @property
    def has_symbolic_sizes(self) -> bool:
        """True if an argument of a function has a symbolic size."""
        types = [
            type_ for function in self.functions.values() for type_ in argument_types(function)
        ]
        return any(unbounded_sizes(type_) is not None for type_ in dict.fromkeys(types))

    @property
    def details(self) -> dict[str, Any]:
        """Attributes, by our names, that are outside of the program."""
        return {}

    def as_written(self, attribute: Any) -> Any:
        """Return the text of an attribute; replica groups along mesh axes become a table."""
        text = str(attribute)
        groups = groups_of_axes(attribute, text, self._meshes)
        return text if groups is None else groups

    @cached_property
    def _meshes(self) -> dict[str, Mesh]:
        return meshes_of(self._module)

    def called(self, step: Step) -> list[Graph]:
        """Return the functions that a custom call receives."""
        return [self.function(name, step) for name in step.get("called_computations", ())]

    def function(self, name: str, step: Step) -> Graph:
        """Return the graph of a function that is already translated."""
        graph = self.graphs.get(name)
        if graph is None:
            if name in self.functions:
                raise self._recursive(name)
            step.reject(f"function {name} does not exist", "Define it in the module.")
        return graph

    def region(self, step: Step, number: int) -> Graph:
        """Return a region, which may read only constants from outside, as a graph."""
        form = step.name, number, _form_of_region(step.operation.regions[number])
        if form not in self._regions:
            body = self.body(step, number)
            if body.captured:
                advice = "XLA's computations are closed: pass the values as operands."
                step.reject(f"its region {number} reads values from outside", advice)
            if form[2] is None:
                return body.graph()
            self._regions[form] = body.graph()
        return self._regions[form]

    def body(self, step: Step, number: int) -> Builder:
        """Translate a region."""
        blocks = step.operation.regions[number].blocks
        if len(blocks) != 1:
            step.reject(f"its region {number} has {len(blocks)} blocks", "Regions have one block.")
        builder = Builder(step.builder)
        builder.copies_constants = step.name not in self.sharing
        builder.source = step.builder.source
        self._nesting += 1
        if self._nesting > self.deepest:
            problem = f"more than {self.deepest} nested regions"
            raise self.located(step.operation.location, problem, (), _FLATTER)
        builder.outputs = list(self._block(blocks[0], builder))
        self._nesting -= 1
        builder.name = f"{step.name.rpartition('.')[2]}_{number}"
        return builder

    def _function(self, name: str) -> Graph:
        operation, problem, advice = self.functions[name], "no body", "Define it in the module."
        blocks = operation.regions[0].blocks if operation.regions else ()
        if len(blocks) > 1:
            problem, advice = "several blocks", "Write branches as stablehlo.if or stablehlo.case."
        if len(blocks) != 1:
            problem = f"function {name} has {problem}"
            raise self.located(operation.location, problem, (), advice)
        builder = Builder()
        self._nesting = 0
        if self._platform is not None and name == "main":
            _fix_platform(operation, builder, self._platform)
        placed, shardings, arguments = [], self.shardings, blocks[0].arguments
        inputs = [
            number for number, argument in enumerate(arguments) if not builder.knows(argument)
        ]
        outputs = self._block(blocks[0], builder)
        if shardings is not None:
            stated = shardings.of_function(operation, "arg_attrs", len(arguments))
            for value, number in zip(builder.inputs, inputs, strict=True):
                if stated[number] is not None:
                    builder.shardings[value] = stated[number]
            placed = shardings.of_function(operation, "res_attrs", len(outputs))
        self.lost.of_function(name, operation)
        graph = builder.graph(outputs, name, placed, shardings and shardings.meshes)
        if graph.depth >= self.deepest:
            problem = f"more than {self.deepest} nested calls"
            raise self.located(operation.location, problem, (), _FLATTER)
        return graph

    def _block(self, block: Any, builder: Builder) -> Sequence[Value]:
        """Translate a block; return the operands of its terminator."""
        for argument in block.arguments:
            try:
                builder.add_input(argument)
            except ValueError as error:
                place = argument.location if self.is_hlo else block.owner.location
                raise self.located(place, str(error), (), _TYPES) from None
        for operation in self._operations(block):
            name = operation.name
            if name in _TERMINATORS:
                return self._returned(operation, name, builder)
            self._translate(operation, name, builder)
        problem = "a block has no terminator"
        raise self.located(block.owner.location, problem, (), "End it with return.")

    def _operations(self, block: Any) -> Iterable[Any]:
        """Return the operations of a block, in the order of their translation."""
        return [view.operation for view in block.operations]

    def located(self, location: Any, problem: str, details: Names, advice: str) -> ImportError_:
        """Return the error for a place in the program."""
        return located(location, problem, details, advice)

    def _translate(self, operation: Any, name: str, builder: Builder) -> None:
        translation = self.translations.get(name)
        if translation is None or (name in SDY and self.shardings is None):
            if not name.startswith(_IGNORED):
                values = operation.operands, operation.results
                operand_types, made = (
                    ", ".join([str(x.type)[:100] for x in value]) for value in values
                )
                problem, types = (
                    f"operation {name} is not known",
                    f"types ({operand_types}) -> ({made})",
                )
                advice = _WITHOUT.get(name, DIALECTS)
                raise self.located(operation.location, problem, [types], advice)
            translation = _sharding
        builder.source = self._source(operation.location)
        step = Step(operation, name, builder, self)
        form = self._form(step) if name in SIMPLE else None
        translate = self._forms.get(form)
        if translate is not None:
            results = builder.add(translate.op, step.operands, translate.result_shapes)
        else:
            results = self._meant(step, translation)
            self.lost.of_step(step)
        targets = (operation.result,) if len(results) == 1 else operation.results
        for result, value in zip(targets, results, strict=True):
            if translate is None:
                self._check_declared(step, "result", result, value)
            builder.define(result, value)
        if self.shardings is not None:
            self.shardings.annotate(operation, results, builder)
        if translate is None and form is not None:
            made = builder.instructions[-1]
            if made.results == tuple(results) and made.operands == tuple(step.operands):
                self._forms[form] = made

    def _meant(self, step: Step, translation: Translation) -> Sequence[Value]:
        """Return the results of a translation; its errors name the place."""
        try:
            return self._as_declared(step, translation(step))
        except ImportError_:
            raise
        except MinixlaError as error:
            # Errors of rules that MLIR's verifier does not check.
            raise step.error(str(error), "The program breaks a rule of the operation.") from error
        except UnreadableError as error:
            raise step.error(str(error), "Write its numbers out, as dense<[...]>.") from error
        except TypeError as error:
            if _NO_CLASS not in str(error):
                raise
            problem = "an attribute holds numbers of a type that cannot be read, such as complex"
            raise step.error(problem, "Remove the attribute, or write real numbers.") from None
        except ValueError as error:
            raise step.error(str(error), _TYPES) from error

    def _form(self, step: Step) -> Any:
        """Return a key for an operation's translation, or None if that needs its operands."""
        operation = step.operation
        is_annotated = self.shardings is not None and len(operation.attributes)
        if is_annotated or self.details or len(operation.regions):
            return None
        return *[value.shape for value in step.operands], *_form_of(operation)

    def _as_declared(self, step: Step, results: Sequence[Value]) -> Sequence[Value]:
        return results

    def _returned(self, terminator: Any, name: str, builder: Builder) -> Sequence[Value]:
        step = Step(terminator, name, builder, self)
        for mlir_value, value in zip(terminator.operands, step.operands, strict=True):
            self._check_declared(step, "operand", mlir_value, value)
        return step.operands

    def _check_declared(self, step: Step, what: str, mlir_value: Any, value: Value) -> None:
        shape = self.declared(mlir_value.type)
        if shape is not None and shape is not value.shape:
            advice = "The declared type must follow from the operands and attributes."
            step.reject(f"the {what} is declared {shape}, but is {value.shape}", advice)

    def _source(self, location: Any) -> Source | None:
        if type(location) is _LINE:  # each operation has its own
            line = location.start_line
            return sources_of(location.filename, line // BLOCK, self.is_traced)[line % BLOCK]
        key = hash(location.attr)
        if key not in self._sources:
            known = source_of(location, self.is_traced)
            self._sources[key] = known if known or self.is_traced else SOME_IMPORTED
        return self._sources[key]

    def _order(self) -> list[str]:
        if len(self.functions) == 1:
            return list(self.functions)
        callees = {name: _callees(function) for name, function in self.functions.items()}
        return callees_first(callees, self._recursive)

    def _recursive(self, name: str) -> ImportError_:
        advice = "XLA's programs do not recurse: use stablehlo.while."
        location = self.functions[name].location
        return self.located(location, f"function {name} calls itself", (), advice)


def _form_of_region(region: Any) -> tuple[Any, ...] | None:
    """Return a key for the graph of a short region; None if it reads more than its arguments."""
    blocks = region.blocks
    operations = [view.operation for view in blocks[0].operations] if len(blocks) == 1 else []
    if not 0 < len(operations) <= _SHORT:
        return None
    numbers: dict[int, int] = {}
    form: list[Any] = []
    for argument in blocks[0].arguments:
        numbers[hash(argument)] = len(numbers)
        form.append(hash(argument.type))
    for operation in operations:
        read = [numbers.get(hash(operand)) for operand in operation.operands]
        if None in read or len(operation.regions):
            return None
        for result in operation.results:
            numbers[hash(result)] = len(numbers)
        form += [*read, *_form_of(operation)]
    return tuple(form)


def _form_of(operation: Any) -> tuple[Any, ...]:
    """Return a key for an operation without regions and operands, by MLIR's unique objects."""
    attributes, types = operation.attributes, operation.results.types
    try:
        hashes = map(hash, (*types, *attributes.values()))
    except TypeError:  # Python's interface to MLIR has no class for complex numbers
        return (operation,)
    return operation.name, len(types), *attributes, *hashes


def _functions(module: Any) -> dict[str, Any]:
    functions: dict[str, Any] = {}
    for view in module.body.operations:
        operation = view.operation
        if operation.name.startswith(_IGNORED):
            continue
        if operation.name != "func.func":
            advice = "A module holds functions (func.func)."
            problem = f"{operation.name} is outside of functions"
            raise located(operation.location, problem, (), advice)
        functions[ir.StringAttr(operation.attributes["sym_name"]).value] = operation
    if not functions:
        raise explain(ImportError_, SUBJECT, "the module holds no function", (), ADVICE)
    return functions


def _fix_platform(function: Any, builder: Builder, platform: int) -> None:
    """Make the index of the platform, an input that jax.export adds, a constant."""
    arguments = function.regions[0].blocks[0].arguments
    for argument, is_index in zip(arguments, is_platform_index(function), strict=True):
        if is_index:
            shape: Any = shape_of_type(argument.type)
            builder.define(argument, builder.constant(platform, shape))


def argument_types(function: Any) -> list[Any]:
    """Return the MLIR types of a function's arguments."""
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs


def is_platform_index(function: Any) -> list[bool]:
    """Return, for each argument, whether jax.export added it to distinguish platforms."""
    count = len(argument_types(function))
    described = function.attributes.get("arg_attrs", ())
    flags = ['"_platform_index"' in str(description) for description in described]
    return flags or [False] * count


_CALLEES = {
    "func.call": "callee",
    "stablehlo.composite": "decomposition",
    "stablehlo.custom_call": "called_computations",
}


def _callees(function: Any) -> list[str]:
    callees: dict[str, None] = {}

    def visit(operation: Any) -> Any:
        label = _CALLEES.get(operation.name)
        named = None if label is None else operation.attributes.get(label, None)
        for symbol in named if isinstance(named, ir.ArrayAttr) else filter(None, [named]):
            callees[ir.FlatSymbolRefAttr(symbol).value] = None
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return list(callees)


def _sharding(step: Step) -> Sequence[Value]:
    """Return the operand of a sharding."""
    if len(step.operands) != len(step.operation.results) or len(step.operation.regions):
        advice = "Run Shardy's passes on the program first, or export it without manual shardings."
        raise located(step.operation.location, f"{step.name} is not supported", (), advice)
    return step.operands
