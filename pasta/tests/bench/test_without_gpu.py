"""What measures a GPU says in one line that there is none."""

from __future__ import annotations

import runpy
import sys

import pytest
import torch


@pytest.mark.parametrize("module", ["pasta.bench.gpu", "pasta.bench.long"])
def test_refused_without_a_device(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", [module])
    monkeypatch.delitem(sys.modules, module, raising=False)  # runpy warns of a module that is there
    with pytest.raises(SystemExit) as exit:
        runpy.run_module(module, run_name="__main__")
    assert exit.value.code == 2
    assert capsys.readouterr().err.endswith("error: no CUDA device is here\n")
