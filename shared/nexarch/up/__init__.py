"""The whole platform under one folder, for a developer's machine and for tests: `nexarch up`."""
