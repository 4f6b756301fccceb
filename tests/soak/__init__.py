"""Long searches for faults: `make soak MINUTES=60`.

Each module but the driver's is a search. `cases(seed)` gives numbered cases, the same for the same
seed. `case.run()` returns None, or a text that says what disagrees; `case.shrunk()` returns a text
that shows a smaller case of the same disagreement. A case may end the process.
"""
