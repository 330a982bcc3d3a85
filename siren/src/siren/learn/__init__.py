"""Parameters that are learnt and not worn out: PMMH, SMC², adaptive tempering, and moves within a filter."""

from siren.learn.learned import Learned
from siren.learn.pmmh import pmmh
from siren.learn.rejuvenate import rejuvenate
from siren.learn.smc2 import smc2
from siren.learn.tempered import tempered

__all__ = ["Learned", "pmmh", "rejuvenate", "smc2", "tempered"]
