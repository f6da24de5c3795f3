"""What authors write with: agents, tools, steps, and the words they may say inside a job."""
