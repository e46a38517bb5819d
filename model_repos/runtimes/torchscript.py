"""Runtime of the TorchScript formats: LibTorch, in a Triton Python-backend model and in process alike."""

import torch


def load(artifact, settings):
    """A TorchScript file to a function from a list of arrays to a list of arrays.

    settings: device (cpu, cuda), device_id, threads.
    """
    torch.set_num_threads(int(settings["threads"]))
    device = "cpu" if settings["device"] == "cpu" else f"cuda:{settings['device_id']}"
    module = torch.jit.load(str(artifact), map_location=device).eval()

    def predict(arrays):
        with torch.inference_mode():
            result = module(*(torch.from_numpy(array).to(device) for array in arrays))
        tensors = result if isinstance(result, (tuple, list)) else (result,)
        return [tensor.cpu().numpy() for tensor in tensors]

    return predict
