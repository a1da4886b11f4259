"""`completion`: print a script that lets a shell complete commands without starting Python."""

from __future__ import annotations

import argparse

from penstock.cli.output import results
from penstock.cli.parser import Commands
from penstock.errors import EXIT_DONE

_SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\
examples:
  eval "$(penstock completion bash)"     # in ~/.bashrc
  eval "$(penstock completion zsh)"      # in ~/.zshrc, after compinit
  penstock completion fish | source      # in ~/.config/fish/config.fish
"""
# Options that take paths, apart from those whose placeholder says FILE.
_CONNECTIONS = ("source", "target")


def add_completion(commands: Commands) -> None:
    """Add ``completion``."""
    parser = commands.add(
        "completion",
        _completion,
        "print a completion script for a shell",
        "{" + ",".join(_SHELLS) + "}",
        (_EXAMPLES,),
    )
    parser.add_argument("shell", choices=_SHELLS, help="the shell to write the script for")


def _completion(arguments: argparse.Namespace) -> int:
    import shtab  # noqa: PLC0415 - rarely needed

    # The parser of all commands, which includes this one.
    from penstock.cli.main import make_parser  # noqa: PLC0415

    parser = make_parser()
    for command in (parser, *_commands(parser)):
        for action in command._actions:
            if action.metavar == "FILE" or action.dest in _CONNECTIONS:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    with results():
        print(shtab.complete(parser, arguments.shell), flush=True)
    return EXIT_DONE


def _commands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    return [
        command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for command in action.choices.values()
    ]
