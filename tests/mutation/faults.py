"""Small faults in a source: one operator, number, word or condition is another."""

import ast
import difflib
import random
from collections.abc import Iterator
from dataclasses import dataclass

_UNSEEN_DECORATORS = ("functools.cache", "pytest.hookimpl", "uncollected")
"""A value that is not kept, or found while garbage is collected, is the same, later; in which turn hooks are called shows in whole runs, which are too slow."""
_UNSEEN_KEYWORDS = ("strict", "frozen")
"""Guards against faults of the code itself: lists made side by side are as long as each other, and values never changed."""
_SAME_OF_LITERALS = ("Eq_Is", "NotEq_IsNot")
"""Words of a source and small whole numbers are kept once by Python, so that equal ones are the same."""
_SAME_OF_NONE = ("Is_Eq", "IsNot_NotEq")
"""Nothing but None equals None, and nothing but what stands for a missing value equals that."""
_LENGTHS_OF_WORDS = ("SHOWN", "LONGEST")
"""What the names of constants begin with, but for underscores, that say how much of a text or a list a message shows: one more is no fault."""

Place = tuple[int, int]
"""A line, from 1, and a column, from 0, of a source."""


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

    Those of which no test could tell, by a rule of this file, are left out.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    tree, places = get_ast(source), []
    unseen, of_literals, of_none = (
        set(found(ast.parse(source))) for found in (_unseen, _beside_literals, _beside_none)
    )
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if kind.arguments():  # it wants to be told of variables
            continue
        left_out = set(unseen)
        left_out |= of_literals if name.endswith(_SAME_OF_LITERALS) else set()
        left_out |= of_none if name.endswith(_SAME_OF_NONE) else set()
        starts = [start for node in ast_nodes(tree) for start, _ in kind().mutation_positions(node)]
        places += [
            (name, number, start[0]) for number, start in enumerate(starts) if tuple(start) not in left_out
        ]
    found = []
    for name, number, line in chance.sample(places, len(places)):
        changed = mutate_code(source, get_operator(name)(), number)
        if changed not in (None, source) and _is_python(changed):
            found.append(Fault(name, line, changed))
        if len(found) == count:
            break
    return found, len(places)


def _is_python(source: str) -> bool:
    """Whether it can be compiled: cosmic-ray takes the stars before arguments for operators."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _unseen(tree: ast.AST) -> Iterator[Place]:
    """Every place in a type, in the words of an error, in a decorator that changes no value, and in a guard."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if isinstance(held := getattr(node, name, None), ast.expr):
                yield from _places_of(held)
        for decorator in getattr(node, "decorator_list", ()):
            if ast.unparse(decorator).startswith(_UNSEEN_DECORATORS):
                yield decorator.lineno, decorator.col_offset - 1  # its @
                yield from _places_of(decorator)
        if isinstance(node, ast.keyword) and node.arg in _UNSEEN_KEYWORDS:
            yield from _places_of(node.value)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).lstrip("_").startswith(
            _LENGTHS_OF_WORDS
        ):
            yield from _places_of(node.value)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "reshape":
            for one in node.args:
                if ast.unparse(one) == "-1":  # NumPy takes any negative length for the rest
                    yield from _places_of(one)
        if isinstance(node, ast.Raise):
            for inner in ast.walk(node):
                if isinstance(inner, ast.JoinedStr):
                    yield from _places_of(inner)


def _beside_literals(tree: ast.AST) -> Iterator[Place]:
    """Every place between two sides of a comparison of which one is a word or a whole number of the source, or a status of
    pytest's, which is a member of an enumeration."""
    for left, right in _compared(tree):
        if any(
            isinstance(getattr(one, "value", None), str | int)
            or ast.unparse(one).startswith("pytest.ExitCode.")
            for one in (left, right)
        ):
            yield from _between(left, right)


def _beside_none(tree: ast.AST) -> Iterator[Place]:
    for left, right in _compared(tree):
        if ast.unparse(right) in ("None", "dataclasses.MISSING"):
            yield from _between(left, right)


def _compared(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The two sides of each comparison."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from zip([node.left, *node.comparators], node.comparators, strict=False)


def _between(left: ast.expr, right: ast.expr) -> Iterator[Place]:
    yield from _span((left.end_lineno or 0, left.end_col_offset or 0), (right.lineno, right.col_offset))


def _places_of(node: ast.expr) -> Iterator[Place]:
    yield from _span((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))


def _span(start: Place, end: Place) -> Iterator[Place]:
    """Every place from one on until before another; a line has at most 200 columns."""
    for line in range(start[0], end[0] + 1):
        first = start[1] if line == start[0] else 0
        last = end[1] if line == end[0] else 200
        yield from ((line, column) for column in range(first, last))
