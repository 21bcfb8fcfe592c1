"""The pages of a server: the chat at `/`, and `/docs`. They load nothing from another host."""

from __future__ import annotations

import html
import json
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import HTMLResponse, Response

_FOLDER = Path(__file__).parent
_ASSETS = {"chat.css": "text/css", "chat.js": "text/javascript"}
_DOCS = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>paribus: routes</title><link rel="stylesheet" href="chat.css"></head>
<body><main class="docs"><h1>Routes</h1>
<p>The schema is at <a href="openapi.json">openapi.json</a>. <a href="./">Chat</a></p>
{routes}</main></body></html>
"""


def add_page(app: FastAPI) -> None:
    """The chat with its files, and a page on the routes."""

    @app.get("/", include_in_schema=False)
    async def chat() -> Response:
        return HTMLResponse(_FOLDER.joinpath("chat.html").read_text("utf-8"))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()))

    for name, media_type in _ASSETS.items():
        _add_asset(app, name, media_type)


def docs_page(schema: dict) -> str:
    """Every route with what it takes."""
    routes = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            routes.append(_route(f"{method.upper()} {path}", route))
    for name, table in schema["components"]["schemas"].items():
        body = html.escape(json.dumps(table, indent=2, ensure_ascii=False))
        routes.append(f"<details><summary>{html.escape(name)}</summary><pre>{body}</pre></details>")
    return _DOCS.format(routes="\n".join(routes))


def _route(title: str, route: dict) -> str:
    words = html.escape(route.get("description", ""))
    return f"<h2><code>{html.escape(title)}</code></h2><p>{words}</p>"


def _add_asset(app: FastAPI, name: str, media_type: str) -> None:
    @app.get(f"/{name}", include_in_schema=False)
    async def asset() -> Response:
        return Response(_FOLDER.joinpath(name).read_text("utf-8"), media_type=media_type)
