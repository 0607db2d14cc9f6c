HEADING = "Compound trouble, live"
def section(bench, write):
    raise SystemExit("not yet")
