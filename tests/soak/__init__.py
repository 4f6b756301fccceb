"""Long searches for faults: `make soak MINUTES=60`.

Each search is a module. `cases(seed)` yields numbered cases, the same for the same seed.
`case.run()` returns None or a description of the disagreement. `case.shrunk()` returns the text of
a smaller case with the same disagreement. A case may end the process.
"""
