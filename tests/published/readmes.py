"""Tables as the published READMEs write them, and the columns of the files that are made of them."""

from reports.record.schema import COMPONENTS

COMPONENTS_MS = [f"{name}_ms" for name in COMPONENTS]
PERCENTILES_MS = [f"latency_{name}_ms" for name in ("p50", "p90", "p95", "p99")]
SPACES = """\
Deploying the ResNet50 v1.5 model on Triton Inference Server

     cd DeepLearningExamples/PyTorch/Classification/ConvNets

Offline scenario

This table lists the common variable parameters for all performance measurements:

Parameter Name Parameter Value
Max Batch Size 128.0
Number of model instances 1.0
Triton Max Queue Delay 1.0
Triton Preferred Batch Sizes 64 128

Offline: NVIDIA A40, ONNX Runtime TensorRT with FP16

Our results were obtained using the following configuration:

  • Backend: ONNX Runtime
  • Backend accelerator: TensorRT
  • Precision: FP16
  • Model format: ONNX

Full tabular data
Precision Backend Accelerator Client Batch Size Inferences/second P90 Latency P95 Latency P99 Latency Avg Latency
FP16 TensorRT 1 491.5 2.046 2.111 2.126 2.031
FP16 TensorRT 2 811.8 2.509 2.568 2.594 2.459

Release Notes
"""


ONE_LINE = """\
Deploying the nnUNet model on Triton Inference Server

    cd DeepLearningExamples/PyTorch/Segmentation/nnUNet

Online scenario

This table lists the parameters: | Parameter Name | Parameter Value | |:---------|:---------| | Max Batch Size | 4 | \
| Number of model instances | 1 | | Backend Accelerator | CUDA |

GPU: NVIDIA DGX A100 (1x A100 80GB)

Online: NVIDIA DGX A100 (1x A100 80GB) with FP16

  • GPU: NVIDIA DGX A100 (1x A100 80GB)
  • Backend: PyTorch
  • Model Format: TorchScript
  • Conversion variant: Script

Full tabular data | Concurrent client requests | Inferences/second | Server Queue | P99 Latency | Avg Latency | \
|-----:|-----:|-----:|----:|----:| | 1 | 26.1 | 0.012 | 38.356 | 38.284 | | 2 | 26.2 | 38.109 | 76.433 | 76.379 |

Release Notes
"""
