"""The paper's figures (Jin et al., ICML 2025, figure 4): Gemma 7B, H100, judged by GPT-4 against its Baseline-SFT.

Speedups are geometric means; those that the text states are exact, the others were read off the figure (about ±0.02,
±0.2 points). They stand beside ours for their shape: another model, another judge, another machine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaperPoint:
    name: str
    realised: float
    theoretical: float
    parallelism: float
    win_rate: float  # length-controlled


POINTS = (
    PaperPoint("Baseline-SFT", 1.00, 1.00, 1.00, 50.0),
    PaperPoint("Pasta-SFT", 1.31, 1.90, 2.36, 32.7),
    PaperPoint("Pasta-BoN-∞", 1.21, 1.40, 1.57, 52.3),
    PaperPoint("Pasta-BoN-8", 1.46, 1.78, 1.80, 48.8),
    PaperPoint("Pasta-BoN-4", 1.54, 1.90, 1.91, 47.4),
    PaperPoint("Pasta-BoN-2", 1.62, 2.08, 2.08, 45.5),
    PaperPoint("Pasta-BoN-1", 1.93, 2.44, 2.33, 42.9),
    PaperPoint("APAR", 1.60, 1.79, 1.70, 41.2),
    PaperPoint("SoT", 0.73, 0.90, 1.14, 38.4),
)
