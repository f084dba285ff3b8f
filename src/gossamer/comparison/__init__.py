"""Methods side by side on many networks: one comparison, which is also the sweep."""

from gossamer.comparison.engine import compare as compare
from gossamer.comparison.result import Comparison as Comparison
