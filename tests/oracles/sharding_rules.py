"""Shardy's registry of sharding rules, as jaxlib has it."""

from minixla.tools.worker import Worker

_worker = Worker("Shardy", "tests.oracles._sharding_rules")


def shardy_rules(text: str, *, timeout: float = 60.0) -> list[tuple[str, str]]:
    """The operations of the functions of a module, in order, and their rules; "" for none.

    Raises:
        OracleError: the module does not parse or verify.
        OracleCrash: Shardy aborted or hung.
    """
    lines = [array.tobytes().decode() for array in _worker.evaluate(text, [], timeout)]
    pairs = [line.partition(" ")[::2] for line in lines]
    wrapped = "#sdy.op_sharding_rule<"
    return [(name, rule.removeprefix(wrapped).removesuffix(">")) for name, rule in pairs]
