"""Write the options of `CopySpec` into the signatures of Airflow's operators and groups.

Usage: ``.venv/bin/python scripts/option_arguments.py [--check]``

Airflow applies `default_args` only to named parameters, and editors and type checkers see no
others. So the sources contain the fields of `CopySpec`, between marks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from penstock.spec.copy_spec import CopySpec

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "airflow_provider/src/penstock_airflow"
KINDS = PACKAGE / "arguments/option_types.py"
# The operators set the connections, the run id, and who continues the run.
OURS = ("source", "target", "run_id", "claim")
BLOCK = re.compile(
    r"(?P<begin> *# options(?: without (?P<without>[a-z_, ]+))?: scripts/option_arguments\.py\n)"
    r".*?(?P<end> *# end of options\n)",
    re.DOTALL,
)
# A number may also be a template, a text with a unit, or another task's output.
TYPES = {
    "str": "option.Text",
    "int": "int | option.Text",
    "float": "float | option.Text",
    "int | str": "int | option.Text",
    "bool": "bool | option.Returned",
}
# Values that are known when a DAG is parsed.
PLAIN = {"control_schema": "str"}
# Options whose defaults depend on a group's other arguments.
OF_GROUPS = {
    "degree": "degree: int | str = DEGREE",
    "attempts": "attempts: int | option.Text | None = None",
    "snapshot": "snapshot: option.Snapshot | None = None",
}
HEAD = '''"""Types of options, for editors and type checkers.

Written by scripts/option_arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from penstock_airflow.sdk import XComArg

Returned: TypeAlias = "XComArg"
"""The output of another task."""
Text: TypeAlias = "str | XComArg"
"""Text that may hold templates."""
Names: TypeAlias = "Sequence[str] | Text"
"""Names, or a comma-separated text."""
ColumnTypes: TypeAlias = "Mapping[str, str] | Sequence[str] | Text"
"""Types by column, or a `NAME=TYPE` for each column."""
'''


def options() -> list[Field[Any]]:
    return [item for item in fields(CopySpec) if item.name not in OURS]


def kind_of(item: Field[Any]) -> str:
    """Return an option's type, as written in a module that imports `option`."""
    if item.name in PLAIN:
        return PLAIN[item.name]
    if item.name == "types":
        return "option.ColumnTypes"
    if item.metadata["choices"]:
        return f"option.{camel(item.name)} | option.Returned"
    plain = str(item.type).removesuffix(" | None")
    if plain.startswith("tuple"):
        return "option.Names"
    return TYPES.get(plain, plain)


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def literals() -> str:
    """Return the module with a type for each choice."""
    text = HEAD
    for item in options():
        if choices := item.metadata["choices"]:
            lines = "".join(f'    "{choice}",\n' for choice in choices)
            # In the formatter's style.
            listed = f"\n{lines}" if len(choices) > 1 else f'"{choices[0]}"'
            text += f"{camel(item.name)} = Literal[{listed}]\n"
    return text


def parameters(indent: str, without: tuple[str, ...], special: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a signature, with a parameter for each option.

    Args:
        indent: the spaces before each line.
        without: the options to leave out.
        special: the text of parameters that differ from the usual form, by option.
    """
    for side in ("source", "target"):
        yield f"{indent}{side}_conn_id: option.Text | None = None,\n"
        yield f"{indent}{side}: option.Text | None = None,\n"
        yield f"{indent}{side}_aws_conn_id: option.Text | None = None,\n"
    for item in options():
        if item.name in without:
            continue
        kind = kind_of(item)
        optional = " | None" if item.default is None else ""
        default = f'"{item.default}"' if isinstance(item.default, str) else repr(item.default)
        usual = f"{item.name}: {kind}{optional} = {default}"
        yield f"{indent}{special.get(item.name, usual)},\n"


def with_options(text: str, special: dict[str, str]) -> str:
    """Return a module's text with new parameters between the marks."""

    def replace_block(match: re.Match[str]) -> str:
        indent = match["begin"][: -len(match["begin"].lstrip())]
        without = tuple(name.strip() for name in (match["without"] or "").split(","))
        return match["begin"] + "".join(parameters(indent, without, special)) + match["end"]

    return BLOCK.sub(replace_block, text)


def expected_texts() -> dict[Path, str]:
    """Return the expected text of each file that has options."""
    texts = {KINDS: literals()}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if BLOCK.search(text):
            texts[path] = with_options(text, OF_GROUPS if path.name == "task_groups.py" else {})
    return texts


def main() -> int:
    stale = {
        path: text
        for path, text in expected_texts().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    if stale and "--check" in sys.argv[1:]:
        names = ", ".join(path.name for path in stale)
        print(f"{names}: the options are not those of CopySpec; run {Path(__file__).name}")
        return 1
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
