"""Writes the example of docs/model-in-python.md as a model of a new name. Needs no installed packages."""

import keyword
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tritonproof.base import commands
from tritonproof.base.commands import Parser
from tritonproof.base.sanitize import excerpt

_TEMPLATE = Path(__file__).parent / "user_models" / "new_model_template.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file that the command line asks for and return 0, or exit with 4 if that is impossible."""
    about = "Write a small model that runs as it is, to change into yours: docs/model-in-python.md."
    parser = Parser(prog=commands.tool_command("new"), description=about)
    parser.add_argument("name", metavar="NAME", help="the name in test ids: letters, digits, _ and hyphens")
    parser.add_argument("--to", type=Path, metavar="FILE", help="the file to write (default: NAME.py here)")
    options = parser.parse_args(arguments)
    file = options.to or Path(f"{options.name.replace('-', '_')}.py")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*", options.name):
        fix = "use letters, digits and _, in words joined by single hyphens"
        parser.error(f"{excerpt(options.name)!r} cannot be a model's name: {fix}")
    if not file.stem.isidentifier() or keyword.iskeyword(file.stem) or file.suffix != ".py":
        parser.error(f"--to {file}: Python cannot import a file of this name: give a name such as model.py")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x") as written:  # never overwrites a file
            written.write(_TEMPLATE.read_text().replace('"biopsy"', f'"{options.name}"'))
    except FileExistsError as error:
        parser.error(f"{error.filename} is in the way: give another file with --to, or remove it")
    except OSError as error:
        parser.error(f"{file} cannot be written: {error.strerror}: name a writable place with --to")
    needs_option = not file.resolve().is_relative_to(Path(__file__).parent / "models")
    selection = f"--models {file.resolve()}" if needs_option else f"-k {options.name}"
    print(f"wrote {file}\nprove it: {commands.benchmarks_command(selection)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
