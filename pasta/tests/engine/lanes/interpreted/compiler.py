from __future__ import annotations

from typing import Any

from triton.backends.compiler import BaseBackend


class Interpreted(BaseBackend):
    @staticmethod
    def supports_target(target: Any) -> bool:
        return target.backend == "cpu"

    def hash(self) -> str:
        return "interpreted"

    def parse_options(self, options: Any) -> Any:
        raise NotImplementedError

    def add_stages(self, stages: Any, options: Any, language: Any = None) -> None:
        raise NotImplementedError

    def load_dialects(self, context: Any) -> None:
        pass

    def get_module_map(self) -> dict[str, Any]:
        return {}
