"""Deployment: an ensemble as one plain module, and as an ONNX file that was checked."""

from sparsemble.export.deployed import Deployable, Deployed
from sparsemble.export.onnx import export_onnx

__all__ = ["Deployable", "Deployed", "export_onnx"]
