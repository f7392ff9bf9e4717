"""RegionTalk: the parts of a photo worth talking about, and what to say of each."""

from regiontalk.errors import RegionTalkError
from regiontalk.types import Alignment, Hit, ImageRegions, Region, Segment, WordMatch

__version__ = "0.1.0"
__all__ = [
    "Alignment",
    "Hit",
    "ImageRegions",
    "Region",
    "RegionTalkError",
    "Segment",
    "WordMatch",
    "__version__",
]
