"""cublas_lt.h's own declarations of cuBLASLt against cublasLt.h, where that is installed, with CUDA or as a wheel."""
import glob
import os
import re

from runner import skip, source

FOLDERS = [os.environ.get("SLACKLINE_CUBLAS_INCLUDE", ""), "/usr/local/cuda*/include", "/usr/include",
           os.path.join(source, ".venv/lib/python3*/site-packages/nvidia/*/include"), "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/include"]
headers = [path for folder in FOLDERS for path in sorted(glob.glob(os.path.join(folder, "cublasLt.h")))]
if not headers:
    skip("no cublasLt.h here")
folder = os.path.dirname(headers[0])


def read(path):
    with open(path) as file:
        return re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read(), flags=re.S)


theirs = read(headers[0]) + read(os.path.join(folder, "cublas_api.h"))
ours = read(os.path.join(source, "src/run/device/cuda/cublas_lt.h")).replace("\\\n", " ")
NUMBERS = {  # CUDA_R_32F and CUDA_R_16BF, 0 and 14, are of library_types.h
    "SL_LT_SUM_F32": "CUBLAS_COMPUTE_32F", "SL_LT_STRICT_F32": "CUBLAS_COMPUTE_32F_PEDANTIC",
    "SL_LT_TRANSPOSE_A": "CUBLASLT_MATMUL_DESC_TRANSA", "SL_LT_TRANSPOSE_B": "CUBLASLT_MATMUL_DESC_TRANSB",
    "SL_LT_EPILOGUE": "CUBLASLT_MATMUL_DESC_EPILOGUE", "SL_LT_BIAS_POINTER": "CUBLASLT_MATMUL_DESC_BIAS_POINTER",
    "SL_LT_EPILOGUE_BIAS": "CUBLASLT_EPILOGUE_BIAS", "SL_LT_WORKSPACE_BYTES": "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES",
    "SL_LT_REDUCTION_SCHEMES": "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK", "SL_LT_ALIGNMENT_A": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES",
    "SL_LT_REDUCTION_IN_COMPUTE_TYPE": "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE"}
KINDS = [(r"cublasLt(Handle|MatmulDesc|MatrixLayout|MatmulPreference)_t", "void *"), (r"cublasLtMatmulAlgo_t", "sl_lt_algo"),
         (r"cublasLtMatmulHeuristicResult_t", "sl_lt_choice"), (r"cublas\w*_t|cudaDataType(_t)?", "int")]


def number(name, text):
    found = re.search(rf"\b{name} = (\d+)", text)
    assert found, f"{name} is not there"
    return int(found[1])


def kinds(parameters):
    """Types of parameters, without names, theirs in our words."""
    types = []
    for parameter in parameters.split(","):
        for pattern, kind in KINDS:
            parameter = re.sub(rf"\b({pattern})\b", kind, parameter)
        array = "[" in parameter
        words = re.sub(r"\[\]", "", parameter).replace("*", " * ").split()
        if len(words) > 1 and words[-1] != "*":
            words.pop()  # its name
        types.append(" ".join(words + ["*"] * array))
    return types


def test_numbers_agree():
    for name, real in NUMBERS.items():
        assert number(name, ours) == number(real, theirs), name
    for offset, operand in enumerate("ABCD"):
        assert number(f"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{operand}_BYTES", theirs) == number("SL_LT_ALIGNMENT_A", ours) + offset


def test_prototypes_agree():
    rows = re.findall(r"X\(([\w *]+), (cublasLt\w+),\s+\(([^()]*)\)\)", ours)
    assert len(rows) == len(re.findall(r"\bX\(\w", ours)), rows
    for result, name, parameters in rows:
        real = re.search(rf"^([\w ]+[\w*]+) ?\*? ?CUBLASWINAPI {name}\(([^;]*)\);", theirs, re.M)
        assert real, f"{name} is not in cublasLt.h"
        assert kinds(parameters) == kinds(real[2]), (name, kinds(parameters), kinds(real[2]))
        assert result.strip() == re.sub(r"cublasStatus_t", "int", real[0].split("CUBLASWINAPI")[0]).replace("char*", "char *").strip(), name


def test_structs_agree():
    algo = re.search(r"typedef struct \{\s*uint64_t data\[(\d+)\];\s*\} cublasLtMatmulAlgo_t;", theirs)
    assert algo and f"uint64_t data[{algo[1]}];" in ours
    choice = re.search(r"typedef struct \{([^{}]*)\} cublasLtMatmulHeuristicResult_t;", theirs)
    assert [line.split()[0] for line in choice[1].strip().split(";") if line.strip()] == ["cublasLtMatmulAlgo_t", "size_t", "cublasStatus_t", "float", "int"]
    assert "reserved[4]" in choice[1] and "reserved[4]" in ours
