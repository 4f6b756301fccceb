"""What facts about sharding are: a program, passes, and what they leave."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fact:
    """What passes must do; the name, with where it is said, is what tests are called."""

    name: str
    passes: str
    #: Here and below, in the shorthand of `oracles.shardy_text.written`.
    before: str
    #: The program that is left, or what takes the place of what in `before`, in order; of what
    #: begins with `+`, the lines before it.
    after: str | dict[str, str] = field(default_factory=dict)
    #: As `after`: what the specification says where Shardy has changed since.
    specification: str | dict[str, str] | None = None
    #: What the message matches with which the program is refused.
    refusal: str = ""

    def left(self, by_specification: bool = False) -> str:
        """The program that must be left."""
        after = self.after
        if by_specification and self.specification is not None:
            after = self.specification
        if isinstance(after, str):
            return after
        text = self.before
        for old, new in after.items():
            found = old.removeprefix("+ ")
            assert text.count(found) == 1, (self.name, old)
            if old.startswith("+ "):
                at = text.rindex("\n", 0, text.index(found))
                text = f"{text[:at]}\n{new}{text[at:]}"
            else:
                text = text.replace(old, new)
        return text


def loop(type_: str, at: str = "", result: str = "") -> str:
    """A program that doubles an array of a type, which may lie somewhere, in a loop."""
    return f"""(%x: {type_}{at}, %i: tensor<i32>) -> {result or type_} {{
  %r:2 = stablehlo.while(%a = %x, %j = %i) : {type_}, tensor<i32>
    cond {{
      %p = stablehlo.compare LT, %j, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %s = stablehlo.add %a, %a : {type_}
      stablehlo.return %s, %j : {type_}, tensor<i32>
    }}
  return %r#0 : {type_}
}}"""
