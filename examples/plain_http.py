"""An agent in plain HTTP, with no Holdfast in it: what any language can do. Kill it at its work: another finishes it.

HOLDFAST_API_KEY=… python examples/plain_http.py summer
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

URL = os.environ.get("HOLDFAST_API_URL", "http://127.0.0.1:8080")
LEASE_S, WORK_S = int(os.environ.get("LEASE_S", "30")), float(os.environ.get("WORK_S", "0"))


def post(path: str, **body: object) -> Any:
    head = {"Authorization": f"Bearer {os.environ['HOLDFAST_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), head)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def keep(work: str, right: dict[str, Any], over: threading.Event) -> None:
    while not over.wait(LEASE_S / 3):
        post(f"/api/work/{work}/renew", **right, leaseSeconds=LEASE_S)


me = post("/api/agents/register", handle=sys.argv[1], agentType="plain-http", capabilities=["summarize"])
while post(f"/api/agents/{me['guid']}/heartbeat"):
    ask = {"guid": me["guid"], "waitSeconds": 20, "leaseSeconds": LEASE_S, "claimId": str(uuid.uuid4())}
    for work in post("/api/work/claim", **ask)["items"]:
        print("claimed", work["id"], flush=True)
        right, over = {"fence": work["fence"], "leaseToken": work["leaseToken"]}, threading.Event()
        threading.Thread(target=keep, args=(work["id"], right, over), daemon=True).start()
        time.sleep(WORK_S)  # what a model would take
        result = {"summary": work["description"].partition(".")[0]}
        try:
            post(f"/api/work/{work['id']}/complete", **right, result=result)
            print("completed", work["id"], flush=True)
        except urllib.error.HTTPError as refused:  # 409: somebody else has it now
            print("not ours any more:", json.load(refused)["detail"], flush=True)
        over.set()
