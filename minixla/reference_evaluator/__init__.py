"""NumPy evaluation: the trace behind `mx.reference`, its precision, and simulated processes."""

from minixla.reference_evaluator.trace import ReferenceTrace, ReferenceTracer
from minixla_ops.random.random_samples import seed

__all__ = ["ReferenceTrace", "ReferenceTracer", "seed"]
