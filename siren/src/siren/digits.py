"""How numbers are written for people."""

import math
from typing import Final

# More digits than these are rounding errors.
_MOST: Final = 15


def number(value: float, sd: float = math.inf, digits: int = 5) -> str:
    """Five significant digits: enough to read, few enough to compare at a glance. More where it takes more
    to show two digits of the standard deviation, as of a date in seconds; of what is certain, the units."""
    if value and math.isfinite(value) and math.isfinite(sd):
        rounded = float(f"{value:.{digits}g}")  # which may have a digit more
        whole = math.floor(math.log10(abs(rounded))) + 1
        if sd > abs(value) * 10.0**-_MOST:
            digits = min(max(digits, whole + 1 - math.floor(math.log10(sd))), _MOST)
        elif digits < whole <= _MOST:
            digits = whole
    return f"{value:.{digits}g}"
