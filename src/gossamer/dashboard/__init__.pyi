# The public names of the dashboard; the fleet's page must not load those of the playground.

from .animation import Animation as Animation
from .notebook import widget as widget
from .saving import SavedPage as SavedPage
from .scenario import Scenario as Scenario
