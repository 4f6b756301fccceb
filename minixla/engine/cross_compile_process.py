"""The process behind `far.py`: compiles programs for devices that are not here.

Run as a script, with a platform's name. A request is the bytes of a `jax.export.Exported`, and the
compiled code that it calls, as `register_code` takes it; a reply the fields of `Compiled`, or a
`problem` of XLA's, or what is `missing`.
"""

import contextlib
import os
import sys

# JAX looks for its kernels for GPUs when it is imported.
sys.path.append(os.environ.get("MINIXLA_FAR", ""))

import jax

from minixla.core.errors import MinixlaError
from minixla.engine.cross_compile import analysed, compiled_for, far_devices
from minixla.engine.foreign_code import register_code
from minixla.engine.subprocesses import receive, send, stream_to_parent


def main() -> None:
    """Answers until there are no more requests."""
    jax.config.update("jax_enable_x64", True)  # programs have the types that they have
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
            except Exception as error:  # whatever XLA says of the program, its sender is told
                reply = {"problem": f"{type(error).__name__}: {error}"}
            send(stream, number, reply)


if __name__ == "__main__":
    main()
