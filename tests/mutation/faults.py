"""Small faults in a source: one operator, number, word or condition is another."""

import ast
import difflib
import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A source with one fault."""

    operator: str
    """What cosmic-ray calls the kind of the fault."""
    line: int
    """Where it is, counted from 1."""
    source: str
    """All of the file, with the fault."""

    def difference(self, source: str) -> str:
        """The lines that differ from the right source."""
        lines = difflib.unified_diff(source.splitlines(), self.source.splitlines(), n=0, lineterm="")
        return "\n".join(
            f"    {line}" for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")
        )


def faults_of(source: str, count: int, chance: random.Random) -> tuple[list[Fault], int]:
    """So many faults of those that cosmic-ray puts into a source, drawn by chance, and how many there are.

    Those in types are left out, of which no test could tell.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    tree, types, places = get_ast(source), set(_types_in(source)), []
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if kind.arguments():  # it wants to be told of variables
            continue
        starts = [start for node in ast_nodes(tree) for start, _ in kind().mutation_positions(node)]
        places += [
            (name, number, start[0]) for number, start in enumerate(starts) if tuple(start) not in types
        ]
    found = []
    for name, number, line in chance.sample(places, len(places)):
        changed = mutate_code(source, get_operator(name)(), number)
        if changed not in (None, source):
            found.append(Fault(name, line, changed))
        if len(found) == count:
            break
    return found, len(places)


def _types_in(source: str) -> Iterator[tuple[int, int]]:
    """Every line and column that lies in an annotation, or in the name of a type."""
    for node in ast.walk(ast.parse(source)):
        for name in ("annotation", "returns"):
            held = getattr(node, name, None)
            if held is not None:
                yield from _places_of(held)


def _places_of(node: ast.AST) -> Iterator[tuple[int, int]]:
    assert isinstance(node, ast.expr)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    for line in range(node.lineno, node.end_lineno + 1):
        first = node.col_offset if line == node.lineno else 0
        last = node.end_col_offset if line == node.end_lineno else 200
        yield from ((line, column) for column in range(first, last))
