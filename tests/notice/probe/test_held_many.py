#!/usr/bin/env python3
# labels: slow
"""test_held.py with 1,000 holds.

Usage: test_held_many.py BUILD_DIR SOURCE_DIR"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("SL_HOLDS", "1000")
from test_held import main  # noqa: E402

sys.exit(main())
