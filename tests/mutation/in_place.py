"""Puts a fault into a module that is loaded already, so that neither it nor the tests of it are loaded anew."""

import ast
import functools
import inspect
import sys
from types import FunctionType, ModuleType
from typing import Any


def is_in_a_function(source: str, faulty: str) -> bool:
    """Whether two sources differ in nothing but what functions do when they are called."""
    return _around_functions(source) == _around_functions(faulty)


def has_same_decorators(source: str, faulty: str) -> bool:
    """Whether a fault is none in what decorators make of functions and classes, which cannot be put in place."""
    return _decorators(source) == _decorators(faulty)


def put_into(module: ModuleType, faulty: str) -> None:
    """Have the functions of a loaded module, and of its classes, do what another source of it says, whoever holds them, and
    its constants be what that says, in all modules of the project that hold them by the same name.

    What another module made of a constant when it was loaded stays as it was.
    """
    other = ModuleType(module.__name__)
    other.__file__ = module.__file__
    exec(compile(faulty, str(module.__file__), "exec"), vars(other))
    for name, value in vars(other).items():
        held = vars(module)[name]
        if inspect.isclass(value) and value.__module__ == module.__name__:
            _put_into_class(held, value)
        elif function := _function_of(value):
            if function.__module__ == module.__name__:
                _put_into_function(_function_of(held), function)
        elif isinstance(value, int | float | str | tuple | dict) and not name.startswith("__"):
            setattr(module, name, value)
            if not name.startswith("_"):
                _put_everywhere(name, held, value)


def _put_everywhere(name: str, held: Any, value: Any) -> None:
    for one in list(sys.modules.values()):
        if one.__name__.partition(".")[0] in ("tests", "fixtures", "reports") and vars(one).get(name) is held:
            setattr(one, name, value)


def _put_into_class(held: Any, value: Any) -> None:
    for name, one in vars(value).items():
        if function := _function_of(one):
            _put_into_function(_function_of(vars(held)[name]), function)
        elif isinstance(one, int | float | str | tuple) and not name.startswith("__"):
            setattr(held, name, one)


def _put_into_function(held: Any, value: FunctionType) -> None:
    held.__code__, held.__defaults__ = value.__code__, value.__defaults__
    held.__kwdefaults__ = value.__kwdefaults__


def _function_of(held: Any) -> FunctionType | None:
    """The function beneath what decorators made of it, which forget what they kept of it; None where it is none."""
    if isinstance(held, functools._lru_cache_wrapper):
        held.cache_clear()
    inner = held.fget if isinstance(held, property) else inspect.unwrap(held) if callable(held) else held
    return inner if isinstance(inner, FunctionType) else None


def _around_functions(source: str) -> str:
    """A module without the bodies of its functions: what is done when it is loaded."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Pass()]
    return ast.dump(tree)


def _decorators(source: str) -> list[str]:
    return [
        ast.dump(one) for node in ast.walk(ast.parse(source)) for one in getattr(node, "decorator_list", ())
    ]
