"""Methods side by side on many networks: one comparison, which is also the sweep."""

from gossamer.comparison.result import Comparison as Comparison
from gossamer.comparison.sweep import compare as compare
