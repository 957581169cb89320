"""Programs for those who work on the repository; none of them is part of the package."""
