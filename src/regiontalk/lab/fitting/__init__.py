"""What is fitted on dev photos after training (`fitter`), and the names of its parts and
figures."""

PARTS = (
    *("settings", "ranking", "calibration", "confidence", "agreement"),
    *("find", "alignment", "search", "names", "colours", "background"),
)
ON_REQUEST = ("names", "colours", "background")  # they need training photos, the others dev photos
OF_WORDS = ("alignment", "search")  # parts for models that align words with regions
ON_ALL_DATA = (
    "confidence",
    "agreement",
    "find",
    "search",
    "names",
    "colours",
    "background",
)  # the other parts are fitted on the first data set
OF_NAMES = ("agreement",)  # parts for models that have names
TRIED = ("score", "final_nms", "proposals", "caption_weight")  # settings
FIGURES = ("map", "map_strict", "detection_map")
