"""Every method and path of dms-ingest, whom it serves, and the function that answers."""

from nexarch.routing import Route

ROUTES: list[Route] = []
