"""Arithmetic that knows nothing of clips, models or configurations: scan, ssm, conv, norm."""
