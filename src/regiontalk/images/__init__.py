"""From a file to pixels: limits, decoding, upright sRGB, resizing; and which photos a path means.

`photo` opens one photo, `limits` refuses files that would take too much memory or time, `paths` finds photos.
"""

from regiontalk.images.limits import Limits

__all__ = ["Limits"]
