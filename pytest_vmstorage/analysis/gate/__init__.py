"""The performance gate: policy, verdicts, and the two ways to judge, by saved days and by pairs in one run."""
