"""`minixla completion`: scripts that complete commands, options and their choices in a shell.

The scripts are made from the parsers of the command line and start no process when they run.
"""

import argparse
import shlex
from collections.abc import Iterable, Iterator

from minixla.tools.command_options import parsers

_BASH = """\
_minixla() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=
  if [[ $COMP_CWORD == 1 ]]; then
    words={commands}
  else
    case "${{COMP_WORDS[1]}} $previous" in
{choices}
      *) [[ $word == -* ]] && case ${{COMP_WORDS[1]}} in
{options}
      esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _minixla minixla
"""
_ZSH = "#compdef minixla\nautoload -Uz bashcompinit && bashcompinit\n"


def show(options: argparse.Namespace) -> int:
    """Print the script for the shell that the options name."""
    scripts = {"bash": _bash(), "zsh": _ZSH + _bash(), "fish": "\n".join(_fish()) + "\n"}
    print(scripts[options.shell], end="")
    return 0


def _actions(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return command._actions


def _words(words: Iterable[object]) -> str:
    return shlex.quote(" ".join(map(str, words)))


def _bash() -> str:
    commands = parsers()[1]
    choices, options = [], []
    for name, command in commands.items():
        flags = [flag for action in _actions(command) for flag in action.option_strings]
        options.append(f"        {name}) words={_words(flags)} ;;")
        for action in _actions(command):
            if action.choices:
                # A positional argument comes directly after the command.
                before = action.option_strings or [name]
                patterns = "|".join(f"'{name} {word}'" for word in before)
                choices.append(f"      {patterns}) words={_words(action.choices)} ;;")
    return _BASH.format(
        commands=_words([*commands, "--help", "--version"]),
        choices="\n".join(choices),
        options="\n".join(options),
    )


def _fish() -> Iterator[str]:
    parser, commands = parsers()
    helps = {action.dest: action.help for action in _subcommands(parser)}
    for name, command in commands.items():
        start = "complete -c minixla -n __fish_use_subcommand -f"
        yield f"{start} -a {name} -d {_quoted(helps[name])}"
        for action in _actions(command):
            words = [f"complete -c minixla -n '__fish_seen_subcommand_from {name}'"]
            for flag in action.option_strings:
                words.append(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}")
            if action.choices:
                words.append(f"-x -a {_words(action.choices)}")
            elif action.option_strings and action.nargs != 0:
                words.append("-r")
            elif not action.option_strings:
                continue
            yield " ".join([*words, f"-d {_quoted(action.help)}"])


def _subcommands(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return one pseudo-action with a name and a help for each command."""
    (commands,) = (x for x in _actions(parser) if isinstance(x, argparse._SubParsersAction))
    return commands._choices_actions


def _quoted(text: str | None) -> str:
    escaped = (text or "").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
