"""The page to try an ensemble in a browser; nothing of it comes from elsewhere."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from sparsemble.pages.document import script, style
from sparsemble.pages.render import render
from sparsemble.tasks.forms import Form

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_SCRIPTS = ("page", "asking", "drawing", "showing")


def add_page(app: FastAPI, form: Form, about: dict[str, Any]) -> None:
    """Have an application show the page.

    Args:
        app: The application.
        form: How people ask for a prediction.
        about: What the service says of itself.
    """
    told = json.dumps(asdict(form))
    page = str(render("serving/page.html", form=form, form_json=told, about=about))
    _add(app, "/", page, HTMLResponse)
    _add(app, "/style.css", str(style("colours", "report")) + _own("page.css"), _Style)
    _add(app, "/theme.js", script("theme"), _Script)
    for name in _SCRIPTS:
        _add(app, f"/{name}.js", _own(f"{name}.js"), _Script)


class _Style(Response):
    media_type = "text/css"


class _Script(Response):
    media_type = "text/javascript"


def _add(app: FastAPI, path: str, content: str, kind: type[Response]) -> None:
    async def sent() -> Response:
        return kind(content, headers=_HEADERS)

    app.add_api_route(path, sent, methods=["GET", "HEAD"], include_in_schema=False)


def _own(name: str) -> str:
    return (files("sparsemble.serving") / name).read_text(encoding="utf-8")
