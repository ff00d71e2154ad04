"""What the handlers find in the application; the keys of `nexarch.module` and `nexarch.tenant_module` are there too."""

from aiohttp import web

from dms_ingest.completing import Completer
from dms_ingest.front import Front
from dms_ingest.new_buckets import NewBuckets
from dms_ingest.readings import Readings
from dms_ingest.receiving import Receiver
from dms_ingest.settings import Settings
from dms_ingest.staging import Staging
from dms_ingest.tus import TusUploads
from dms_ingest.usage_delivery import UsageDelivery
from nexarch.seats import Seats
from nexarch.storage import Storage

SETTINGS: web.AppKey[Settings] = web.AppKey("settings", Settings)
FRONT: web.AppKey[Front] = web.AppKey("front", Front)
STORAGE: web.AppKey[Storage] = web.AppKey("storage", Storage)
NEW_BUCKETS: web.AppKey[NewBuckets] = web.AppKey("new_buckets", NewBuckets)
STAGING: web.AppKey[Staging] = web.AppKey("staging", Staging)
USAGE: web.AppKey[UsageDelivery] = web.AppKey("usage", UsageDelivery)
RECEIVER: web.AppKey[Receiver] = web.AppKey("receiver", Receiver)
UPLOAD_SEATS: web.AppKey[Seats] = web.AppKey("upload_seats", Seats)
DOWNLOAD_SEATS: web.AppKey[Seats] = web.AppKey("download_seats", Seats)
READINGS: web.AppKey[Readings] = web.AppKey("readings", Readings)
COMPLETER: web.AppKey[Completer] = web.AppKey("completer", Completer)
TUS: web.AppKey[TusUploads] = web.AppKey("tus", TusUploads)
