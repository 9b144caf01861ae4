"""The messages in Python's source, and the same source with other words.

Messages are f-strings and plain strings, written where they are needed. gettext does not know f-strings: they are
filled in before anybody could look them up. So a module is translated before it is compiled, as pytest rewrites
``assert``: a string that the catalogue has is replaced in the syntax tree, with its values in the order of the
other language.
"""

from __future__ import annotations

import ast
import inspect
import re
import string
from collections.abc import Callable, Iterator

# A word and more before or after it, "no room", "in {place}"; or grammar alone, "{stack}'s {metric}", "{keys}.".
_WORDS = re.compile(r"[A-Za-z]{2,}.*\s|\s.*[A-Za-z]{2,}|\w's |x[.]$", re.S)
# What programs read: SQL, " FROM {name} WHERE"; an expression of a chart, "datum.x > 0 ? 1 : 0"; a regex, "(?:a)".
_CODE = re.compile(
    r"--|\W*(?:SELECT|FROM|WHERE|GROUP BY|ORDER BY|(?:LEFT |CROSS )?JOIN|COPY|CREATE|INSERT|UNION|WITH|CASE|CAST"
    r"|SET|SHOW|ALTER|DROP|GRANT|ATTACH|PRAGMA|VALUES|DELETE|UPDATE|DESCRIBE|AND|LIMIT|USING|VACUUM|set -eu)\b"
    r"|.*(?:\bdatum[.\[]|\(\?[:P<]|\\d|\\s| = (?:true|false)|list\(| AS \"|, \{?GROUPED"
    r"|read_(?:json|parquet|csv)\()",
    re.S,
)
# Calls whose strings are no messages, by the last part of their name.
_SILENT = frozenset(
    """compile match fullmatch search sub split rsplit partition rpartition startswith endswith removeprefix
    removesuffix replace strip lstrip rstrip encode index find count getattr get import_module field Doc run must
    sh ask text Command argv shell TypeVar NewType cast entries""".split()  # noqa: SIM905
)
# Of these calls each string is shown, even a single word.
_SHOWN = frozenset({"Table", "add_column", "Argument", "Option", "_"})
_SHOWN_KEYWORDS = frozenset({"help", "title", "metavar"})

Translate = Callable[[str], str | None]


def vocabulary(source: str) -> Iterator[str]:
    """The strings that the program itself compares, or finds things by: they are the same in every language."""
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST] = []
        match node:
            case ast.Compare():
                parts = [node]
            case ast.match_case(pattern=pattern):
                parts = [pattern]
            case ast.Dict(keys=keys):
                parts = [each for each in keys if each is not None]
            case ast.Subscript(value=value, slice=key) if getattr(value, "id", "") != "Annotated":
                parts = [key]
        for part in parts:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.value
                elif isinstance(inner, ast.JoinedStr):
                    yield _template(inner)


def collect(source: str) -> Iterator[tuple[str, bool]]:
    """(template, whether it stands where every word is shown) of each message but docstrings: only a command's are
    shown."""
    found: list[tuple[str, bool]] = []

    def note(template: str) -> None:
        found.append((template, rewriter.shown))

    rewriter = _Rewriter(note, docstrings=False)
    rewriter.visit(ast.parse(source))
    yield from found


def rewritten(source: str, translate: Translate) -> ast.Module:
    """The syntax tree with every message that ``translate`` has another template for. Raises ``ValueError`` for a
    template that names a value which the message does not have."""
    tree: ast.Module = _Rewriter(translate, docstrings=True).visit(ast.parse(source))
    return ast.fix_missing_locations(tree)


def documentation(docstring: str) -> str:
    """The template of a docstring."""
    return _escaped(inspect.cleandoc(docstring))


def fields(template: str) -> list[str]:
    """The names of a template's values, in order. Raises ``ValueError`` for unbalanced braces."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]


def names(expressions: list[ast.expr]) -> list[str]:
    """A name for each value of a template: that of its variable, attribute or function, numbered where one comes
    twice. One that begins with ``_`` is English grammar, which another language may leave out."""
    found: list[str] = []
    for each in expressions:
        name = _name(each)
        same = sum(known.rstrip("0123456789") == name for known in found)
        found.append(f"{name}{same + 1}" if same else name)
    return found


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_") or "value"
        case ast.IfExp(body=ast.Constant(value=str(one)), orelse=ast.Constant(value=str(other))):
            # Such as a plural's s: "{count} row{_s}".
            return f"_{next((word for word in (one, other) if word.isalpha()), 'word')}"
        case ast.JoinedStr(values=values):
            return next((_name(each.value) for each in values if isinstance(each, ast.FormattedValue)), "text")
    inner = _inner(node)
    return "value" if inner is None else _name(inner)


def _inner(node: ast.expr) -> ast.expr | None:
    """The part of an expression that says what it is about."""
    match node:
        case ast.Call(args=[inner, *_]) | ast.Call(func=inner):
            return inner
        case ast.BinOp(left=inner) | ast.BoolOp(values=[inner, *_]) | ast.IfExp(body=inner):
            return inner
        case ast.Subscript(value=inner) | ast.Starred(value=inner):
            return inner
        case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
            return inner
    return None


class _Rewriter(ast.NodeTransformer):
    def __init__(self, translate: Translate, *, docstrings: bool) -> None:
        self.translate, self.docstrings = translate, docstrings
        self.shown = False

    # Docstrings

    def _documented(self, node: ast.AST) -> ast.AST:
        body = node.body  # type: ignore[attr-defined]
        first = body[0] if body else None
        docstring = first if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None
        if docstring is None:
            return self._inside(node)
        del body[0]
        self._inside(node)
        value = docstring.value
        assert isinstance(value, ast.Constant)
        if self.docstrings:
            docstring.value = self._constant(value, documentation(str(value.value)))
        body.insert(0, docstring)
        return node

    def _inside(self, node: ast.AST) -> ast.AST:
        returned = getattr(node, "returns", None)
        if returned is not None and _plain(returned):
            node.returns = None  # type: ignore[attr-defined]
        return self.generic_visit(node)

    visit_Module = visit_ClassDef = visit_FunctionDef = _documented

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        # What stands behind an attribute is its docstring.
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    # What is no message

    def visit_arg(self, node: ast.arg) -> ast.AST:
        # An annotation in quotes is code.
        return node if node.annotation is None or _plain(node.annotation) else self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        # Annotated[str, typer.Option(help=...)]
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            node.slice = self.visit(node.slice)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        node.values = [self.visit(each) for each in node.values]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        node.func = self.visit(node.func)
        if name in _SILENT:
            node.args = [each if _plain(each) else self.visit(each) for each in node.args]
        else:
            node.args = [self._visible(each, name in _SHOWN) for each in node.args]
        for keyword in node.keywords:
            if name in _SILENT and _plain(keyword.value):
                continue
            keyword.value = self._visible(keyword.value, keyword.arg in _SHOWN_KEYWORDS)
        return node

    def _visible(self, node: ast.expr, shown: bool) -> ast.expr:
        before, self.shown = self.shown, shown
        found: ast.expr = self.visit(node)
        self.shown = before
        return found

    # Messages

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str):
            return node
        template = _escaped(node.value)
        return self._constant(node, template) if self._message(template) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        # Before what stands in its values is translated, which may change their names.
        template, named, values = _template(node), names(_values(node)), _formatted(node)
        for each in values:
            each.value = self.visit(each.value)
        if not self._message(template):
            return node
        other = self.translate(template)
        if other is None:
            return node
        known = dict(zip(named, values, strict=True))
        parts: list[ast.expr] = []
        for text, name, _, _ in string.Formatter().parse(other):
            if text:
                parts.append(ast.Constant(text))
            if name is not None:
                if name not in known:
                    raise ValueError(f"{other!r} names {{{name}}}, which {template!r} does not have")
                parts.append(known[name])
        return ast.copy_location(ast.JoinedStr(parts), node)

    def _constant(self, node: ast.Constant, template: str) -> ast.expr:
        other = self.translate(template)
        if other is None:
            return node
        if fields(other):
            raise ValueError(f"{other!r} has values, but {template!r} has none")
        return ast.copy_location(ast.Constant("".join(text for text, *_ in string.Formatter().parse(other))), node)

    def _message(self, template: str) -> bool:
        plain = re.sub(r"\{\w+\}", "x", template)
        if _CODE.match(plain):
            return False
        return bool(_WORDS.search(plain)) or (self.shown and bool(re.search("[A-Za-z]{2,}", plain)))


def _template(node: ast.JoinedStr) -> str:
    order = iter(names(_values(node)))
    return "".join(
        f"{{{next(order)}}}" if isinstance(each, ast.FormattedValue) else _escaped(getattr(each, "value", ""))
        for each in node.values
    )


def _formatted(node: ast.JoinedStr) -> list[ast.FormattedValue]:
    return [each for each in node.values if isinstance(each, ast.FormattedValue)]


def _values(node: ast.JoinedStr) -> list[ast.expr]:
    return [each.value for each in _formatted(node)]


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr)


def _escaped(text: object) -> str:
    return str(text).replace("{", "{{").replace("}", "}}")
