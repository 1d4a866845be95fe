"""The client, its handles and its calls."""

from .client import Client
from .executions import CancelOptions, ExecutionFilter
from .handles import FlowResult, FlowRun, Run

__all__ = ["CancelOptions", "Client", "ExecutionFilter", "FlowResult", "FlowRun", "Run"]
