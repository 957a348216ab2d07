from .status import RunStatus as RunStatus, Status as Status
from .store import Store as Store
