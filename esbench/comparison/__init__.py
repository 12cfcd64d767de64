"""Whether one side is better than another: what may be compared, one value a race, verdicts (docs/method.md).

Pure: records in, frozen values out. Nothing here reads a store, prints, or knows a race that is running.
"""
