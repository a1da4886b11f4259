"""`completion`: print a script that lets a shell complete commands without starting Python."""

from __future__ import annotations

import argparse
import re

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
# bash splits words at = and :, and replaces only what follows the last of them.
_BASH = r"""
_penstock() {
  local typed="${COMP_WORDS[COMP_CWORD]}" words=() breaks='^[=:]+$' last='' glue='' word i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    if [[ $i -gt 0 && -n $word && (-n $glue || $word =~ $breaks) ]]; then
      words[${#words[@]}-1]="$last$word"
    else
      words+=("$word")
    fi
    last="${words[${#words[@]}-1]}" glue=''
    [[ $word =~ $breaks ]] && glue=1
  done
  [[ $typed =~ $breaks ]] && typed=''
  local COMP_WORDS=() COMP_CWORD
  for word in "${words[@]}"; do
    # An option and its value, as shtab expects them.
    if [[ $word =~ ^--[a-z0-9-]+= ]]; then
      COMP_WORDS+=("${word%%=*}" "${word#*=}")
    else
      COMP_WORDS+=("$word")
    fi
  done
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _shtab_penstock
  last="${COMP_WORDS[COMP_CWORD]}"
  for i in "${!COMPREPLY[@]}"; do
    word="${COMPREPLY[i]}"
    if [[ ${#last} -ge ${#typed} ]]; then
      COMPREPLY[i]="${word#"${last%"$typed"}"}"
    else
      COMPREPLY[i]="${typed%"$last"}$word"
    fi
  done
}

complete -o bashdefault -F _penstock penstock"""
# An option that takes a value.
_IN_ZSH = re.compile(r'^(  "\*?--[a-z0-9-]+)(?=\[.*\]:)', re.MULTILINE)
# With these arguments, fish completes no path after an equals sign.
_PATHS_IN_FISH = '-xka "(__fish_complete_path (commandline -ct))"'
# Options that take paths, apart from those whose placeholder says FILE.
_CONNECTIONS = ("source", "target")


def add_completion(commands: Commands) -> None:
    """Add ``completion``."""
    parser = commands.add(
        "completion",
        _completion,
        "{" + ",".join(_SHELLS) + "}",
        (_EXAMPLES,),
    )
    parser.set_defaults(whole_parser=commands.whole_parser)
    parser.add_argument("shell", choices=_SHELLS, help="the shell to write the script for")


def _completion(arguments: argparse.Namespace) -> int:
    import shtab  # noqa: PLC0415 - rarely needed

    parser: argparse.ArgumentParser = arguments.whole_parser()
    for command in (parser, *_commands(parser)):
        for action in command._actions:
            if action.metavar == "FILE" or action.dest in _CONNECTIONS:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = _with_equals_signs(shtab.complete(parser, arguments.shell), arguments.shell)
    with results():
        print(script, flush=True)
    return EXIT_DONE


def _with_equals_signs(script: str, shell: str) -> str:
    """Return a script that also completes ``--option=value``, as shtab's does not."""
    if shell == "bash":
        return f"{script}\n{_BASH}"
    if shell == "zsh":
        return _IN_ZSH.sub(r"\1=", script)
    return script.replace(_PATHS_IN_FISH, "-rF")


def _commands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    return [
        command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for command in action.choices.values()
    ]
