"""Imported once for all ranks of all jobs (forked_ranks.py): torchtitan with what torchtitan_cpu.py replaces."""
import torchtitan_cpu

torchtitan_cpu.stand_in()
