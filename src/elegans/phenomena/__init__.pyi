from .base import (
    Bars as Bars,
    Chart as Chart,
    Matrix as Matrix,
    Moment as Moment,
    Phenomenon as Phenomenon,
    Points as Points,
    Story as Story,
)
from .showing import Shown as Shown, phenomena as phenomena, show as show
