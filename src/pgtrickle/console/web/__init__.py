"""The console as a web page; the only package that imports starlette and uvicorn."""
