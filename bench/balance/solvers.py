"""The split by a solver, as a user would write it. Reads times in ns, one per line, from standard input; arguments: cp-sat or
milp, microbatches, limit in seconds. Prints whether the split is proven optimal, seconds, and its makespan in ns (-1: none)."""
import sys
import time


def by_cp_sat(times, microbatches, limit):
    from ortools.sat.python import cp_model
    model = cp_model.CpModel()
    counts = [model.new_int_var(1, microbatches, "") for _ in times]
    makespan = model.new_int_var(1, max(times) * microbatches, "")
    model.add(sum(counts) == microbatches)
    for count, each in zip(counts, times):
        model.add(count * each <= makespan)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit
    status = solver.status_name(solver.solve(model))
    found = [solver.value(count) for count in counts] if status in ("OPTIMAL", "FEASIBLE") else None
    return status == "OPTIMAL", found


def by_milp(times, microbatches, limit):
    import numpy
    from scipy import optimize, sparse
    n = len(times)
    each = sparse.hstack([sparse.diags(numpy.array(times, float) / 1e6), -numpy.ones((n, 1))])
    together = sparse.csr_array(numpy.append(numpy.ones(n), 0)[None, :])
    done = optimize.milp(numpy.append(numpy.zeros(n), 1), integrality=numpy.append(numpy.ones(n), 0),
                         bounds=optimize.Bounds(numpy.append(numpy.ones(n), 0), numpy.inf),
                         constraints=[optimize.LinearConstraint(each, -numpy.inf, 0),
                                      optimize.LinearConstraint(together, microbatches, microbatches)],
                         options={"time_limit": limit, "mip_rel_gap": 0})
    return done.status == 0, None if done.x is None else [round(count) for count in done.x[:n]]


solver, limit = {"cp-sat": by_cp_sat, "milp": by_milp}[sys.argv[1]], float(sys.argv[3])
times = [int(line) for line in sys.stdin]
solver([1, 1], 2, 1)  # loads the library
begin = time.monotonic()
is_proven, counts = solver(times, int(sys.argv[2]), limit)
took = time.monotonic() - begin
print(int(is_proven), f"{took:.4f}", max(count * each for count, each in zip(counts, times)) if counts else -1)
