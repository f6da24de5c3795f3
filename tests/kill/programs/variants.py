"""Variants: the same program as the next worker may meet it, with a helper renamed or its sets in another order."""

from __future__ import annotations

import ast
import random
import re

_UNFIT_TO_RENAME = re.compile(r"hf\.(uuid|random|now|sleep|wait|ask|checkpoint)\b")
"""What is found again by its place alone: nothing tells which of two calls a renamed coroutine has made."""


def rename(source: str, chance: random.Random) -> str | None:
    """The source with one helper coroutine renamed; None, if there is none that may be."""
    if _UNFIT_TO_RENAME.search(source):
        return None
    tree = ast.parse(source)
    names = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef) and not node.decorator_list and not _is_method(tree, node)
    ]
    if not names:
        return None
    name = chance.choice(names)
    return ast.unparse(_Renamer(name, f"{name}_anew").visit(tree)) + "\n"


def _is_method(tree: ast.AST, function: ast.AsyncFunctionDef) -> bool:
    return any(isinstance(node, ast.ClassDef) and function in node.body for node in ast.walk(tree))


class _Renamer(ast.NodeTransformer):
    def __init__(self, before: str, after: str) -> None:
        self._before = before
        self._after = after

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._after if node.id == self._before else node.id
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.name = self._after if node.name == self._before else node.name
        return self.generic_visit(node)


def reorder(source: str) -> str | None:
    """The source with every set of strings iterated in the opposite order, as another hash seed might have it."""
    tree = ast.parse(source)
    orderer = _Orderer()
    tree = orderer.visit(tree)
    return ast.unparse(tree) + "\n" if orderer.found else None


class _Orderer(ast.NodeTransformer):
    found = False

    def visit_Set(self, node: ast.Set) -> ast.AST:
        if not all(isinstance(one, ast.Constant) for one in node.elts):
            return self.generic_visit(node)
        self.found = True
        values = {ast.literal_eval(one) for one in node.elts}
        return ast.List([ast.Constant(value) for value in reversed(list(values))], ast.Load())


FASTER = 20


def hurry(source: str) -> str:
    """The source with every short wait shorter, to be played in real time."""
    return ast.unparse(_Hurrier().visit(ast.parse(source))) + "\n"


class _Hurrier(ast.NodeTransformer):
    _waits = frozenset("sleep timeout wait_for call_later move_on_after fail_after wait".split())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in self._waits:
            node.args = [_shorter(one) for one in node.args]
        for keyword in node.keywords:
            if keyword.arg == "timeout":
                keyword.value = _shorter(keyword.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """`loop.time() + 2`."""
        self.generic_visit(node)
        left = node.left.func if isinstance(node.left, ast.Call) else None
        if isinstance(left, ast.Attribute) and left.attr == "time":
            node.right = _shorter(node.right)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Dict) and ast.unparse(node.targets[0]) == "SIGNALS":
            node.value.values = [_shorter(one) for one in node.value.values]
        return node


def _shorter(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, int | float) and not isinstance(node.value, bool) and node.value < 1000:
            return ast.Constant(node.value / FASTER)
        if node.value == "2s":
            return ast.Constant(f"{2000 // FASTER}ms")
    return node
