"""A process that compiles programs for devices of other machines.

`cross_compile` runs it as a script, with the name of a platform. A request is the bytes of a
`jax.export.Exported`, and the compiled code that it calls, as `register_code` takes it. A reply
has the fields of `Compiled`, XLA's `problem`, or what is `missing`.
"""

import contextlib
import os
import sys

# On import, JAX looks for its GPU kernels.
sys.path.append(os.environ.get("MINIXLA_FAR", ""))

import jax

from minixla.core.errors import MinixlaError
from minixla.engine.cross_compile import analysed, compiled_for, far_devices
from minixla.engine.foreign_code import register_code
from minixla.engine.subprocesses import receive, send, stream_to_parent


def main() -> None:
    """Answer requests until there are no more."""
    jax.config.update("jax_enable_x64", True)  # programs keep their types
    stream, devices = stream_to_parent(), []
    with contextlib.suppress(EOFError):
        while True:
            number, libraries, (exported,) = receive(stream)
            try:
                devices = devices or far_devices(sys.argv[1])
                for library in libraries:
                    register_code(*library)
                reply = analysed(compiled_for(devices, exported.tobytes()))._asdict()
            except MinixlaError as error:
                reply = {"missing": str(error)}
            except Exception as error:  # the sender gets any error of XLA
                reply = {"problem": f"{type(error).__name__}: {error}"}
            send(stream, number, reply)


if __name__ == "__main__":
    main()
