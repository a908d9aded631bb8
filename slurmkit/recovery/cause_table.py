"""The table of causes: the phrases of frameworks, Python and the kernel by which each kind is known.

A row's own sentence may name what its pattern has found. Every row has an example, which the tests recognise.
The order matters: where one line fits several rows, the first of them counts.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One phrase."""

    kind: str
    pattern: str
    example: str
    sentence: str = ""
    advice: str = ""
    at_end: bool = False
    """Programs also print it in passing: it counts among the last lines only."""


WORKERS = "use fewer data loader workers, or ask for more under [resources] mem"
ROWS: tuple[Row, ...] = (
    # GPUs and their memory.
    Row(
        "gpu-out-of-memory",
        r"(?:CUDA|HIP|XPU|MPS backend) out of memory\. Tried to allocate (?P<size>[\d.]+ [KMGT]?i?B)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
        sentence="the GPU's memory is full: {size} more did not fit",
    ),
    Row(
        "gpu-out-of-memory",
        r"(?:CUDA|HIP|XPU)(?: error:)? out of memory|torch(?:\.cuda)?\.OutOfMemoryError",
        "RuntimeError: CUDA error: out of memory",
    ),
    Row(
        "gpu-out-of-memory",
        r"RESOURCE_EXHAUSTED: (?:.*?)(?:[Oo]ut of memory|allocat)",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 17 bytes",
        advice="use a smaller batch per device or shard more; XLA_PYTHON_CLIENT_MEM_FRACTION sets "
        "JAX's share",
    ),
    Row(
        "gpu-out-of-memory",
        r"OOM when allocating tensor.*\bGPU",
        "ResourceExhaustedError: OOM when allocating tensor with shape[64,1024] on /task:0/device:GPU:0",
    ),
    Row(
        "gpu-out-of-memory",
        r"cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory|CUBLAS_STATUS_ALLOC_FAILED",
        "CUDARuntimeError: cudaErrorMemoryAllocation: out of memory",
    ),
    Row(
        "gpu-out-of-memory",
        r"Cuda failure(?: \d+)? '?out of memory",
        "ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 'out of memory'",
    ),
    Row(
        "gpu-lost",
        r"fallen off the bus|GPU is lost",
        "Unable to determine the device handle for GPU 0000:17:00.0: GPU is lost. Reboot the system",
    ),
    Row(
        "gpu-lost",
        r"uncorrectable (?P<what>ECC|NVLink) error",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        sentence="a GPU has failed: an uncorrectable {what} error",
    ),
    Row(
        "gpu-lost",
        r"\bXid\b.*?: (?P<xid>\d+)",
        "NVRM: Xid (PCI:0000:17:00): 79, pid=1234, name=python, GPU has stopped",
        sentence="a GPU has failed: its driver reports Xid {xid}",
    ),
    Row(
        "shared-gpu",
        r"Duplicate GPU detected : rank (?P<one>\d+) and rank (?P<other>\d+)",
        "ncclInvalidUsage: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 7000",
        sentence="ranks {other} and {one} use one GPU",
    ),
    Row(
        "shared-gpu",
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        sentence="another process holds the GPU, which takes only one",
    ),
    Row(
        "cuda-error",
        r"invalid device ordinal",
        "RuntimeError: CUDA error: invalid device ordinal",
        sentence="the program asked for a GPU by a number that there is not",
        advice="use the number in SLURMKIT_DEVICE: where tasks are bound to their GPUs it is not LOCAL_RANK",
    ),
    Row(
        "cuda-error",
        r"device-side assert",
        "RuntimeError: CUDA error: device-side assert triggered",
        sentence="an assertion on the GPU failed: most often an index lies outside of its table",
        advice="check labels and token ids against the sizes; CUDA_LAUNCH_BLOCKING=1 shows the call",
    ),
    Row(
        "cuda-error",
        r"no kernel image is available",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        sentence="the program was not built for this kind of GPU",
        advice="use a build of the framework for it, or ask for another kind under [resources]",
    ),
    Row(
        "gpu-driver",
        r"driver (?:version is insufficient|on your system is too old)",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
    ),
    Row(
        "no-gpu",
        r"No CUDA GPUs are available|no CUDA-capable device|Found no NVIDIA driver|No HIP GPUs are available"
        r"|not compiled with CUDA enabled",
        "RuntimeError: No CUDA GPUs are available",
    ),
    Row(
        "cuda-error",
        r"(?:CUDA|HIP) error: (?P<what>.+)",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        sentence="the GPU's runtime reports: {what}",
    ),
    Row(
        "cuda-error",
        r"(?P<what>CUBLAS_STATUS_(?!SUCCESS)\w+|CUDNN_STATUS_(?!SUCCESS)\w+)",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        sentence="a GPU library reports {what}",
    ),
    # Memory of the host.
    Row(
        "shared-memory-full",
        r"[Bb]us error.*shared memory|out of shared memory",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory.",
    ),
    Row(
        "shared-memory-full",
        r"dev/shm.*No space left|No space left.*dev/shm|creating shared memory segment"
        r"|unable to (?:write to|mmap).*</?torch_|unable to open shared memory object",
        "RuntimeError: unable to write to file </torch_7_12_0>: No space left on device (28)",
    ),
    Row(
        "host-out-of-memory",
        r"worker \(pid.*killed by signal: Killed|worker .*SIGKILL\(-9\)",
        "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.",
        sentence="a worker of the program was killed, as the kernel does where memory is full",
        advice=WORKERS,
    ),
    Row(
        "host-out-of-memory",
        r"Unable to allocate (?P<size>[\d.]+ \wi?B)",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with "
        "shape (1000,)",
        sentence="the program asked for {size} of host memory and did not get it",
    ),
    Row(
        "host-out-of-memory",
        r"\bMemoryError\b|std::bad_alloc|OutOfMemoryError: Java heap"
        r"|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory|OOM when allocating tensor",
        "MemoryError",
        sentence="the program asked for more host memory than it got",
    ),
    # Disks.
    Row(
        "disk-full",
        r"No space left on device: '(?P<path>[^']+)'",
        "OSError: [Errno 28] No space left on device: '/scratch/checkpoint.pt'",
        sentence="the disk of {path} is full",
    ),
    Row(
        "disk-full",
        r"Disk quota exceeded(?:: '(?P<path>[^']+)')?",
        "OSError: [Errno 122] Disk quota exceeded: '/home/ada/model.bin'",
        sentence="a quota is used up",
    ),
    Row(
        "disk-full",
        r"No space left on device|PytorchStreamWriter failed writing|\bENOSPC\b",
        "RuntimeError: PytorchStreamWriter failed writing file data/5: file write failed",
    ),
    Row(
        "storage-failed",
        r"Stale file handle|Input/output error|transport endpoint (?:is not connected|shutdown)",
        "OSError: [Errno 116] Stale file handle: '/scratch/data/part-3'",
    ),
    # What Python and the loader do not find.
    Row(
        "missing-module",
        r"No module named '?(?P<module>[\w.-]+)",
        "ModuleNotFoundError: No module named 'einops'",
        sentence="the Python module {module} is not installed where the job runs",
    ),
    Row(
        "import-error",
        r"(?P<library>[\w.+-]+\.so[\w.]*): cannot open shared object file",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        sentence="the library {library} is not found on this node",
    ),
    Row(
        "import-error",
        r"version [`'](?P<version>GLIBC(?:XX)?_[\w.]+)' not found",
        "ImportError: /lib64/libm.so.6: version `GLIBC_2.34' not found (required by /venv/torch.so)",
        sentence="the program was built for a newer system than this node's: it needs {version}",
        advice="build or install it on a node of this kind, or run it in a container",
    ),
    Row(
        "import-error",
        r"undefined symbol: (?P<symbol>\w+)",
        "ImportError: /venv/flash_attn.so: undefined symbol: _ZN3c104cuda",
        sentence="two libraries of different builds do not fit together",
        advice="build the extension again with the framework's version that the job uses",
    ),
    Row(
        "import-error",
        r"ImportError: (?P<what>.+)",
        "ImportError: cannot import name 'Mesh' from 'torch.distributed'",
        sentence="an import failed: {what}",
        advice="compare the versions of the packages in the job's environment with those that work for you",
    ),
    Row(
        "python-syntax",
        r"(?:SyntaxError|IndentationError|TabError): (?P<what>.+)",
        "SyntaxError: invalid syntax",
        sentence="Python does not understand the program's text: {what}",
    ),
    # Limits, ports, names.
    Row(
        "file-limit",
        r"Too many open files|received 0 items of ancdata",
        "OSError: [Errno 24] Too many open files: '/data/part-1023'",
    ),
    Row(
        "process-limit",
        r"can't start new thread|pthread_create failed"
        r"|(?:fork|BlockingIOError).*Resource temporarily unavailable",
        "RuntimeError: can't start new thread",
    ),
    Row(
        "port-in-use",
        r":(?P<port>\d{2,5})\b.*(?:[Aa]ddress already in use|EADDRINUSE)",
        "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        sentence="port {port}, which the program listens on, is taken",
    ),
    Row(
        "port-in-use",
        r"[Aa]ddress already in use|\bEADDRINUSE\b",
        "OSError: [Errno 98] Address already in use",
    ),
    Row(
        "no-network",
        r"host='(?P<host>[^']+)'.*Max retries exceeded|Failed to resolve '(?P<name>[^']+)'",
        "HTTPSConnectionPool(host='models.example.org', port=443): Max retries exceeded with url: /resolve",
    ),
    Row(
        "no-network",
        r"Network is unreachable|LocalEntryNotFoundError|OfflineModeIsEnabled",
        "OSError: [Errno 101] Network is unreachable",
    ),
    # Ranks that do not hear of each other.
    Row(
        "nccl-error",
        r"no socket interface found|[Nn]o interface found",
        "ncclInternalError: Bootstrap : no socket interface found",
        sentence="NCCL finds no network interface of the name that it was told",
        advice="set NCCL_SOCKET_IFNAME to one that all nodes have, or leave it unset; `slurmkit "
        "doctor` lists them",
    ),
    Row(
        "nccl-timeout",
        r"collective operation timeout:.*OpType=(?P<op>\w+)",
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, "
        "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
        sentence="{op} did not end in time: some rank did not take part in it",
    ),
    Row(
        "nccl-timeout",
        r"Timed out waiting \d+ms for (?:send|recv)|watchdog got stuck|failed to pass monitoredBarrier",
        "RuntimeError: [transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation",
    ),
    Row(
        "rendezvous-timeout",
        r"waiting for clients\. (?P<there>\d+)/(?P<all>\d+) clients joined",
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 3/4 "
        "clients joined.",
        sentence="only {there} of {all} ranks came to the rendezvous in time",
    ),
    Row(
        "rendezvous-timeout",
        r"trying to connect to \(?(?P<host>[^,()\s]+), (?P<port>\d+)|connect to any network address of "
        r"\(?(?P<host2>[^,()\s]+), (?P<port2>\d+)",
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to "
        "connect to (n1, 29500).",
    ),
    Row(
        "rendezvous-timeout",
        r"waiting for clients|DistStoreError|Rendezvous(?:Timeout|Connection)Error|DEADLINE_EXCEEDED"
        r"|wait timeout after \d+ms|RuntimeError: Socket Timeout",
        "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect",
    ),
    Row(
        "rendezvous-timeout",
        r"Name or service not known|Temporary failure in name resolution|nodename nor servname",
        "socket.gaierror: [Errno -2] Name or service not known",
        sentence="the name of another host does not resolve on this node",
        advice="use MASTER_ADDR as slurmkit sets it: it is an address where the name does not resolve",
    ),
    Row(
        "connection-lost",
        r"nccl(?:Remote|System)Error|Connection (?:reset|closed|refused)|Broken pipe|connection was lost"
        r"|^(?:Connection\w*|BrokenPipe|IncompleteRead)Error\b"
        r"|recvValue failed|coordination service.*(?:heartbeat|unavailable)|tasks? (?:has|have) crashed",
        "RuntimeError: [transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.2]:31245",
    ),
    # Programs that do not start.
    Row(
        "launch-failed",
        r"^slurmkit: (?P<why>'.*' (?:is not|does not|cannot) .+|no place in the mesh: .+"
        r"|.+start the program with srun)",
        "slurmkit: 'trian' is not on the PATH of the job (modules, venv, conda?)",
        sentence="{why}",
    ),
    Row(
        "launch-failed",
        r"(?P<program>[^\s:]+): command not found",
        "bash: line 1: trian: command not found",
        sentence="the command {program} is not on the PATH of the job",
        at_end=True,
    ),
    # Words that many programs also print in passing.
    Row(
        "missing-file",
        r"FileNotFoundError: .*?'(?P<path>[^']+)'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'",
        sentence="{path} does not exist on this node",
    ),
    Row(
        "missing-file",
        r"can't open file '(?P<path>[^']+)': \[Errno 2\]",
        "python3: can't open file '/home/ada/trian.py': [Errno 2] No such file or directory",
        sentence="the program {path} does not exist on this node",
    ),
    Row(
        "permission",
        r"PermissionError: .*?'(?P<path>[^']+)'",
        "PermissionError: [Errno 13] Permission denied: '/data/locked'",
        sentence="{path} must not be used in this way",
    ),
    Row("permission", r"Read-only file system", "OSError: [Errno 30] Read-only file system: '/opt/cache'"),
    Row(
        "missing-file",
        r"No such file or directory",
        "cat: /data/list: No such file or directory",
        at_end=True,
    ),
    Row("permission", r"Permission denied", "bash: line 1: /data/run: Permission denied", at_end=True),
    Row(
        "segmentation-fault",
        r"(?:Fatal Python error|killed by signal): Segmentation fault|Segmentation fault \(core"
        r"|Signal 11 \(SIGSEGV\) received",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.",
    ),
    Row(
        "bus-error",
        r"Fatal Python error: Bus error|killed by signal: Bus error|Signal 7 \(SIGBUS\) received",
        "Fatal Python error: Bus error",
    ),
    Row(
        "illegal-instruction",
        r"Illegal instruction",
        "bash: line 1: 17 Illegal instruction (core dumped) ./a",
    ),
    # torchrun, of its workers.
    Row("killed", r"Signal 9 \(SIGKILL\) received", "traceback : Signal 9 (SIGKILL) received by PID 4242"),
)
"""What programs say, special phrases first."""
