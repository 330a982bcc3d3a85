"""What `/openapi.json` says of the bodies, which the routes read themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

PLACE = "#/components/schemas/{model}"


def takes(kind: type[BaseModel]) -> dict[str, Any]:
    """For a route's `openapi_extra`."""
    schema = {"$ref": PLACE.format(model=kind.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def publish(app: FastAPI, kinds: Sequence[type[BaseModel]]) -> None:
    """Adds the bodies' own schemas to what the routes say."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = plain()
            _, bodies = models_json_schema([(kind, "validation") for kind in kinds], ref_template=PLACE)
            schema.setdefault("components", {}).setdefault("schemas", {}).update(bodies["$defs"])
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
