"""The documentation site: its navigation, its pages outside of docs/, and how it is built."""
