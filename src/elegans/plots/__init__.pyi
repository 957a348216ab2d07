from .attention import (
    attention_by_position as attention_by_position,
    attention_lines as attention_lines,
    attention_map as attention_map,
)
from .contour import traced_frontier as traced_frontier
from .curves import error_lines as error_lines, learning_curve as learning_curve
from .frontier import success_frontier as success_frontier
from .importances import feature_importances as feature_importances
from .style import figure_of as figure_of
