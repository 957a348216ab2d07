from .figures import explore as explore
