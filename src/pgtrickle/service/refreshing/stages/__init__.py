"""Support for the stages of a refresh: staging, stored rows, source versions, progress."""
