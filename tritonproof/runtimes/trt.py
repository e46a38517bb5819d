"""Runtime of the TensorRT format, on PyTorch's tensors, in a Triton Python-backend model and in process."""

import tensorrt
import torch


def load(artifact, parameters):
    """Turn a serialised engine into a function on lists of tensors on the GPU. parameters: device_id."""
    device = torch.device("cuda", int(parameters["device_id"]))
    torch.cuda.set_device(device)  # an engine belongs to the GPU that is current when it is read
    runtime = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.WARNING))
    engine = runtime.deserialize_cuda_engine(artifact.read_bytes())
    if engine is None:
        raise RuntimeError(f"{artifact}: the engine was built for another GPU or another TensorRT")
    context = engine.create_execution_context()
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    inputs = [name for name in names if engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT]
    dtypes = {
        name: torch.from_numpy(tensorrt.nptype(engine.get_tensor_dtype(name))(0).reshape(1)).dtype
        for name in names
        if name not in inputs
    }
    stream = torch.cuda.Stream(device)

    def predict(tensors):
        stream.wait_stream(torch.cuda.current_stream(device))  # which may still copy the inputs
        with torch.cuda.stream(stream):
            buffers = {name: tensor.contiguous() for name, tensor in zip(inputs, tensors, strict=True)}
            for name, tensor in buffers.items():
                context.set_input_shape(name, tuple(tensor.shape))
            for name, dtype in dtypes.items():
                shape = tuple(context.get_tensor_shape(name))
                buffers[name] = torch.empty(shape, dtype=dtype, device=device)
            for name, tensor in buffers.items():
                context.set_tensor_address(name, tensor.data_ptr())
            context.execute_async_v3(stream.cuda_stream)
        stream.synchronize()
        return [buffers[name] for name in dtypes]

    return predict
