"""The common parts of all calculators: checks of arguments, exact linear algebra, and the catalogue."""
