"""XLA's operation set and functions of chlo: builders with the same names in snake_case.

A builder that no module defines is derived from its class when it is first used.
"""

import sys
from functools import partial as _partial
from typing import Any as _Any

from minixla.core.builders import builder as _builder
from minixla.core.registry import REGISTRY
from minixla_ops.collectives import collective_joins, collective_passing, ragged_all_to_all
from minixla_ops.control_flow import conditional, loops, map, scan
from minixla_ops.dump_only.async_pairs import BUILDERS as _BUILDERS
from minixla_ops.dynamic_sizes import dimension_sizes, dynamic_reshape
from minixla_ops.elementwise import conversion, no_nan, operators, selection, special_functions
from minixla_ops.elementwise.accuracy import ResultAccuracy
from minixla_ops.elementwise.binary import binary_builder as _binary_builder
from minixla_ops.elementwise.families import Binary as _Binary
from minixla_ops.folds import batch_norm, fold, reduce_window, softmax
from minixla_ops.host import infeed_outfeed, parameters, send_recv
from minixla_ops.host.custom_call import register_custom_call
from minixla_ops.host.transfers import create_token
from minixla_ops.indexing import dynamic_slicing, gather, scatter, select_and_scatter, top_k
from minixla_ops.indexing.index_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from minixla_ops.inventory import ENTRIES as _ENTRIES
from minixla_ops.linear_algebra import eigen, fft, gaps, lu, qr, solving, svd, triangular_systems
from minixla_ops.movement import broadcasting, constants, reshaping
from minixla_ops.movement.slicing import slice_in_dim
from minixla_ops.products import convolution, scaled_dot
from minixla_ops.products.convolution_dimensions import ConvolutionDimensionNumbers
from minixla_ops.products.dot_dimensions import DotDimensionNumbers
from minixla_ops.products.ragged_dot import RaggedDotDimensionNumbers
from minixla_ops.programs import composite_call
from minixla_ops.random import random_bit_generator, random_samples, threefry

_NAMES = {entry.name: entry.builder for entry in _ENTRIES}
# Functions that derive a builder on first use, keyed by the builder's name.
_DERIVED = {}
for _class in REGISTRY.values():
    _own = vars(sys.modules[_class.__module__])
    if _class.builder_name not in _own and _class.spec_names:
        _derive = _binary_builder if issubclass(_class, _Binary) else _builder
        _derived = _BUILDERS.get(_class.builder_name) or _partial(_derive, _class)
        _DERIVED[_class.builder_name] = _derived
    _names = _class.builder_name, *[_NAMES.get(name) for name in _class.spec_names]
    globals().update({name: _own[name] for name in _names if name in _own})
for _name in _DERIVED:
    globals().pop(_name, None)  # a submodule of the same name
_public = [name for name, value in globals().items() if callable(value) and name[0] != "_"]
__all__ = sorted([*_public, *_DERIVED])  # pyright: ignore[reportUnsupportedDunderAll]  # computed


def __getattr__(name: str) -> _Any:
    derive = _DERIVED.get(name)
    if derive is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    builder: _Any = derive()
    if name not in _BUILDERS:
        builder.__module__ = __name__
    return globals().setdefault(name, builder)


def __dir__() -> list[str]:
    return __all__
