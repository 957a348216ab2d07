from .base import (
    Bars as Bars,
    Chart as Chart,
    Matrix as Matrix,
    Moment as Moment,
    Phenomenon as Phenomenon,
    Points as Points,
    Story as Story,
)
from .listing import phenomena as phenomena
from .showing import Shown as Shown, show as show
