from .settings import CONFIGURATIONS as CONFIGURATIONS, configuration as configuration
