from .base import Learner as Learner, LearnerData as LearnerData, LearnerRun as LearnerRun
from .kernel import KernelRidge as KernelRidge
from .search import SubsetSearch as SubsetSearch
