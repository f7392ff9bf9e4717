"""The model on disk, its settings, and the runtimes that run its graphs (ONNX Runtime, torch)."""
