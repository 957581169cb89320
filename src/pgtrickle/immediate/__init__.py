"""IMMEDIATE mode: functions and triggers by which writers maintain a stream table themselves."""
