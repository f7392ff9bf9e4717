"""The docstrings that fields of a class have below them, which Python itself does not keep."""

from __future__ import annotations

import ast
import inspect
import textwrap


def field_docstrings(kind: type) -> dict[str, str]:
    """Field -> the docstring below it, in a class and those it inherits from."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if "__annotations__" not in vars(base):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for node, following in zip(tree.body, tree.body[1:], strict=False):
            text = following.value if isinstance(following, ast.Expr) else None
            if isinstance(node, ast.AnnAssign) and isinstance(text, ast.Constant):
                assert isinstance(node.target, ast.Name)
                texts[node.target.id] = one_line(str(text.value))
    return texts


def one_line(text: str) -> str:
    return " ".join(text.split())
