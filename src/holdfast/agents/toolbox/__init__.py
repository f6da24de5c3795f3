"""Toolbox: tools that many agents need, within limits that the operator sets: a shell, files below a root, HTTP.

from holdfast.agents.toolbox import file_tools, http_tools, shell_tool

tools = [shell_tool("workspace"), *file_tools("workspace"), *http_tools(allow=["api.example.com"])]
"""

from holdfast.agents.toolbox.files import file_tools
from holdfast.agents.toolbox.http import http_tools
from holdfast.agents.toolbox.shell import shell_tool

__all__ = ["file_tools", "http_tools", "shell_tool"]
