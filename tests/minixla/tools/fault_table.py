"""More than a hundred programs with one planted fault each."""

from __future__ import annotations

from tests.minixla.tools.faults import Fault
from tests.minixla.tools.faults_in_backends import STABLEHLO_FORMS, XLA
from tests.minixla.tools.faults_in_derivatives import BATCHING, DERIVATIVES, USERS
from tests.minixla.tools.faults_in_reference import REFERENCE_RULES

FAULTS: dict[str, Fault] = {
    f"{group}: {name}": fault
    for group, table in [
        ("reference", REFERENCE_RULES),
        ("StableHLO", STABLEHLO_FORMS),
        ("XLA", XLA),
        ("derivative", DERIVATIVES),
        ("batching", BATCHING),
        ("user", USERS),
    ]
    for name, fault in table.items()
}
