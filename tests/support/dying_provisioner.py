"""Makes a tenant and dies by SIGKILL after one step: `python dying_provisioner.py <dsn> <master key> <slug> <step>`."""

import asyncio
import os
import signal
import sys

from pydantic import SecretStr

from core_api.master_key import MasterKey
from core_api.provisioning import Provisioner


def main() -> None:
    dsn, master_key, slug, last_step = sys.argv[1:]

    def die_after(step: str) -> None:
        if step == last_step:
            os.kill(os.getpid(), signal.SIGKILL)

    provisioner = Provisioner(dsn, MasterKey(SecretStr(master_key)), die_after)
    asyncio.run(provisioner.create_tenant(slug, "Half made"))


if __name__ == "__main__":
    main()
