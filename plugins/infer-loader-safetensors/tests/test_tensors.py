from __future__ import annotations

import torch

from infer_loader_safetensors.tensors import DenseTensor


def seeded(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_dense_tensor_is_sliced_by_logical_axes_and_copied_when_made_dense() -> None:
    values = seeded(6, 4)
    tensor = DenseTensor(values)
    assert (tensor.shape, tensor.format) == ((6, 4), "dense.float32")
    assert torch.equal(tensor.narrow(0, 1, 2).dense(torch.float32), values[1:3])
    assert torch.equal(tensor.narrow(1, 2, 2).dense(torch.float32), values[:, 2:])
    assert torch.equal(tensor.take_rows(torch.tensor([5, 0])).components()["weight"], values[[5, 0]])
    copy = tensor.narrow(1, 2, 2).dense(torch.float32)
    assert copy.is_contiguous()
    assert copy.data_ptr() != values[:, 2:].data_ptr()
    assert DenseTensor(values.bfloat16()).format == "dense.bfloat16"
