"""Makes nsight.sqlite: a database as `nsys export --type sqlite` writes it, small, written by SQLite itself.

    python3 make_nsight.py nsight.sqlite

Pages of 512 bytes give trees of three levels; one name is longer than a page. The test that reads it knows the same formulas.
"""

import sqlite3
import sys

PROCESS = 4321 << 24
THREAD = PROCESS | 4322

db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA page_size = 512")
db.executescript(
    """
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
        shortName INTEGER NOT NULL, gridX INTEGER NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
        copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL,
        bytes INTEGER NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, correlationId INTEGER, syncType INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
        start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
        correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
    CREATE TABLE NVTX_EVENTS (
        start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
        color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
    """
)
long_name = "void gemm<" + "half, " * 300 + "float>"
strings = ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020", "cudaMemsetAsync_v3020", long_name, "tokenize"]
db.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(strings, start=10)))
db.executemany("INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (?, ?, ?)", [(1, "HTOD", "HtoD"), (2, "DTOH", "DtoH")])
db.executemany("INSERT INTO ENUM_CUDA_MEM_KIND VALUES (?, ?, ?)", [(0, "PAGEABLE", "Pageable"), (1, "PINNED", "Pinned"), (2, "DEVICE", "Device")])
db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'A GPU', '0000:01:00.0')")
for batch in range(30):
    base = 1_000_000 + batch * 2_000_000
    correlation = 1 + batch * 8
    # The host tokenizes for 1.2 ms, copies, launches five kernels, and waits for them.
    db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, NULL, ?, NULL, 15, 0)", (base, base + 1_200_000, THREAD))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 11, 0, NULL)", (base + 1_200_000, base + 1_210_000, THREAD, correlation))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 1, 7, ?, ?, 4096, 1, 0, 2)", (base + 1_205_000, base + 1_215_000, correlation, PROCESS))
    for kernel in range(5):
        call = base + 1_220_000 + kernel * 8_000
        number = correlation + 1 + kernel
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 10, 0, NULL)", (call, call + 5_000, THREAD, number))
        start = base + 1_226_000 + kernel * 100_000
        end = start + 100_000 + (batch * 37 + kernel * 11) % 13 * 1_000
        stream = 7 if kernel % 2 == 0 else 13
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, ?, ?, ?, 14, 14, 32)", (start, end, stream, number, PROCESS))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 12, 0, NULL)", (base + 1_262_000, base + 1_750_000, THREAD, correlation + 6))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?, ?, 0, ?, 3)", (base + 1_262_000, base + 1_750_000, correlation + 6))
    if batch % 10 == 0:
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 13, 0, NULL)", (base + 1_752_000, base + 1_756_000, THREAD, correlation + 7))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?, ?, 0, 1, 7, ?, ?, 0, 64)", (base + 1_760_000, base + 1_762_000, correlation + 7, PROCESS))
# A mark, which has no end, and text of its own.
db.execute("INSERT INTO NVTX_EVENTS VALUES (1500000, NULL, 34, NULL, NULL, NULL, 'a mark', ?, NULL, NULL, 0)", (THREAD,))
db.commit()
db.execute("VACUUM")
db.close()
