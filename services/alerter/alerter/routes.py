"""Every method and path of the alerter; so far the frame's own (health, metrics, documentation) are all."""

from nexarch.routing import Route

ROUTES: list[Route] = []
