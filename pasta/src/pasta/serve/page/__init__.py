"""The page at `/`: what it is made of, and with which rules a browser gets it."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response

from pasta.serve.errors import ApiError

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
SCRIPTS = "main client answer fields markdown writing timeline words turn race link".split()
KINDS = {
    name: TYPES[name[name.rindex(".") :]]
    for name in ("index.html", "theme.css", "style.css", *(f"{script}.js" for script in SCRIPTS))
}
PATHS = frozenset(("/", *(f"/page/{name}" for name in KINDS)))
# Nothing from elsewhere, and nothing that a model writes can become script.
RULES = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/", response_model=None)
    async def index() -> Response:
        return send("index.html")

    @router.get("/page/{name}", response_model=None)
    async def part(name: str) -> Response:
        if name not in KINDS:
            raise ApiError(404, "Not Found")
        return send(name)

    return router


def send(name: str) -> Response:
    return Response(files(__name__).joinpath(name).read_bytes(), media_type=KINDS[name], headers=RULES)
