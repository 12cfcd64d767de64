"""Comparison of sides: which of them may be compared, one value per race for each figure, verdicts (docs/verdicts.md).

Pure but for `resolve`, which reads the stores: records in, frozen values out. Nothing here prints or depends on a race
that is running.
"""
