"""Runtime of the TensorRT format: an engine with PyTorch's buffers, in a Triton Python-backend model and in process."""

import tensorrt
import torch


def load(artifact, settings):
    """A serialised engine to a function from a list of arrays to a list of arrays.

    settings: device_id.
    """
    device = torch.device("cuda", int(settings["device_id"]))
    engine = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.WARNING)).deserialize_cuda_engine(
        artifact.read_bytes()
    )
    if engine is None:
        raise RuntimeError(f"{artifact}: the engine was built for another GPU or another TensorRT")
    context = engine.create_execution_context()
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    is_input = {name: engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT for name in names}
    dtypes = {
        name: torch.from_numpy(tensorrt.nptype(engine.get_tensor_dtype(name))(0).reshape(1)).dtype
        for name in names
    }
    stream = torch.cuda.Stream(device)

    def predict(arrays):
        with torch.cuda.stream(stream):
            inputs = [torch.from_numpy(array).to(device) for array in arrays]
            buffers = dict(zip((n for n in names if is_input[n]), inputs, strict=True))
            for name, tensor in buffers.items():
                context.set_input_shape(name, tuple(tensor.shape))
            for name in names:
                if not is_input[name]:
                    shape = tuple(context.get_tensor_shape(name))
                    buffers[name] = torch.empty(shape, dtype=dtypes[name], device=device)
                context.set_tensor_address(name, buffers[name].data_ptr())
            context.execute_async_v3(stream.cuda_stream)
            return [buffers[name].cpu().numpy() for name in names if not is_input[name]]

    return predict
