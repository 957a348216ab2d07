"""The words of verdicts."""

HOLDS, CORRECTED, IN_PART = "holds", "holds with correction", "holds in part"
FAILS, UNDECIDED = "fails", "undecided"
VERDICTS = (HOLDS, CORRECTED, IN_PART, FAILS, UNDECIDED)
