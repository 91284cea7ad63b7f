"""How much memory this process has: weights, caches, everything."""

import os
import sys
from pathlib import Path

STATM = Path("/proc/self/statm")  # sizes in pages: program, resident, …


def resident_bytes() -> int | None:
    """What is in memory now; where the system does not tell, the most that ever was; else None."""
    try:
        return int(STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
