"""The golden tests: cases.py is loaded by test_golden.py, record.py is a script."""

collect_ignore = ["cases.py", "record.py"]
