from .base import Course as Course, Learner as Learner, Lesson as Lesson
from .kernel import KernelRidge as KernelRidge
from .search import SubsetSearch as SubsetSearch
