"""Tensor x data parallelism on PyTorch's DeviceMesh, laid out as slurmkit's mesh says, and both compared.

A linear layer is cut by columns over the tensor axis and copied over the data axis. One step of it gives the
gradients of the whole layer on the whole batch.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from slurmkit import progress
from slurmkit.launch import rank_from_env

ME = rank_from_env()
INPUTS, OUTPUTS, BATCH = 16, 32, 8


def device_mesh(kind):
    """PyTorch's mesh of the axes with more than one rank; it begins with the slowest varying one."""
    axes = [axis for axis in reversed(ME.mesh.order) if ME.mesh.sizes[axis] > 1]
    return init_device_mesh(kind, [ME.mesh.sizes[axis] for axis in axes], mesh_dim_names=axes)


def check_groups(mesh):
    """PyTorch's groups and slurmkit's are the same ranks in the same order."""
    for axis in mesh.mesh_dim_names:
        ranks = dist.get_process_group_ranks(mesh.get_group(axis))
        if ranks != list(ME.mesh.groups[axis]) or mesh.get_local_rank(axis) != ME.mesh.coordinates[axis]:
            raise SystemExit(
                f"rank {ME.rank}: {axis} has {ranks} in PyTorch, {ME.mesh.groups[axis]} in slurmkit"
            )
        print(f"rank {ME.rank}: {axis} {ME.mesh.coordinates[axis]} of {ranks}", flush=True)


def whole_layer(device):
    """The layer before it is cut: the same on every rank."""
    torch.manual_seed(0)
    return nn.Linear(INPUTS, OUTPUTS).to(device)


def loss_of(layer, inputs):
    return layer(inputs).square().mean()


def main():
    if ME.mesh is None:
        raise SystemExit("no mesh: the job file needs [parallel]")
    device = torch.device("cuda", ME.device or 0) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    mesh = device_mesh(device.type)
    check_groups(mesh)
    replicas, replica = ME.mesh.sizes["data"], ME.mesh.coordinates["data"]
    inputs = torch.randn(replicas * BATCH, INPUTS, generator=torch.Generator().manual_seed(1)).to(device)

    layer = parallelize_module(
        whole_layer(device), mesh["tensor"], ColwiseParallel(output_layouts=Replicate())
    )
    with progress.phase("compute"):
        loss_of(layer, inputs[replica * BATCH : (replica + 1) * BATCH]).backward()
    gradients = [parameter.grad for parameter in layer.parameters()]
    with progress.phase("sync"):
        for gradient in gradients:
            dist.all_reduce(gradient.to_local(), group=mesh.get_group("data"))
    progress.step(1)

    reference = whole_layer(device)
    loss_of(reference, inputs).backward()
    for gradient, expected in zip(gradients, reference.parameters(), strict=True):
        torch.testing.assert_close(gradient.full_tensor() / replicas, expected.grad)
    part, whole = tuple(layer.weight.to_local().shape), tuple(layer.weight.shape)
    print(f"rank {ME.rank}: {part} of {whole}, gradients agree")
    dist.destroy_process_group()


main()
