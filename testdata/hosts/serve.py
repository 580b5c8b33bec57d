"""Serves the repositories below a directory with Dulwich, behind waitress.

serve.py DIRECTORY PORT
"""
import os
import sys
import time

import dulwich
import waitress
from dulwich.repo import Repo
from dulwich.server import Backend, ReceivePackHandler, UploadPackHandler
from dulwich.web import make_wsgi_chain

ROOT = sys.argv[1]


class Directory(Backend):
    """Each request opens its repository, and one is served at a time: what the one before
    has open is closed, or a thousand requests are the end of the server's descriptors."""

    last = None

    def open_repository(self, path):
        if self.last is not None:
            self.last.close()
        self.last = Repo(os.path.join(ROOT, path.strip("/")))
        return self.last


class Receive(ReceivePackHandler):
    """Dulwich has no hook before a push: these are the tests' own rules."""

    def _apply_pack(self, refs):
        directory = self.repo.path
        hold = os.path.join(directory, "muster-hold")
        if os.path.exists(hold):
            open(os.path.join(directory, "muster-held"), "w").close()
            while os.path.exists(hold):
                time.sleep(0.05)
        refuse = os.path.join(directory, "muster-refuse")
        if os.path.exists(refuse):
            with open(refuse, "rb") as f:
                words = f.read().strip()
            for _ in iter(lambda: self.proto.read(65536), b""):
                pass  # the pack
            return [(b"unpack", b"ok")] + [(ref, words) for _, _, ref in refs]
        return super()._apply_pack(refs)


print("Dulwich", ".".join(map(str, dulwich.__version__)), flush=True)
waitress.serve(
    make_wsgi_chain(
        Directory(),
        handlers={b"git-upload-pack": UploadPackHandler, b"git-receive-pack": Receive},
    ),
    host="127.0.0.1",
    port=int(sys.argv[2]),
    asyncore_use_poll=True,  # select knows no descriptor above 1023
    threads=1,  # two pushes at once end in a FileLocked, and status 500
)
