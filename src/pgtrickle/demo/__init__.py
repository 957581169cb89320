"""The demo: a small shop whose stream tables maintain themselves while it does business."""
