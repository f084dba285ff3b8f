"""Sinks that post answers to a web server: as JSON, or as InfluxDB's line protocol."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from base64 import b64encode
from datetime import UTC, datetime
from urllib.parse import urlencode

from gossamer.agents.config.urls import Place, Url
from gossamer.agents.sinks.kinds import Answer, Sink
from gossamer.errors import InvalidInput

_PATIENCE = 10.0
"""Seconds after which a server that does not answer has failed."""

_DETAILS = 300
"""Bytes of an error's explanation that are shown."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirection an error: the POST would become a GET without content, and a token would go elsewhere."""

    def redirect_request(self, *_: object) -> None:
        return None


class _Posting(Sink):
    """Posts to a web server, with the token in `token_file`, or a user and the password in `password_file`.

    With TLS, the server's certificate must be from an authority of the system, or from those in the file `ca`.
    """

    scheme = "Bearer"

    def __init__(self, url: Url, owner: Place) -> None:
        super().__init__(url, owner)
        if not url.host:
            raise InvalidInput(f"the sink {url.kind}://HOST/PATH needs a host, got {url.text!r}")
        self._token_file = url.text_of("token_file", "")
        self._password_file = url.text_of("password_file", "")
        if bool(url.user) != bool(self._password_file):
            raise InvalidInput(
                f"{url.kind}: needs a user and password_file, or none of both, as in {url.kind}://USER@HOST/..., "
                f"got {url.text!r}"
            )
        ca, secure = url.text_of("ca", ""), url.kind.endswith("s")
        if ca and not secure:
            raise InvalidInput(f"ca is for {url.kind}s://, got {url.text!r}")
        tls = [urllib.request.HTTPSHandler(context=owner.tls(url.kind, ca=ca))] if secure else []
        self._opener = urllib.request.build_opener(_NoRedirects, *tls)
        self.server = f"[{url.host}]" if ":" in url.host else url.host
        self.server += f":{url.port}" if url.port else ""

    def post(self, address: str, content: str, kind: str) -> None:
        headers = {"Content-Type": kind}
        if self._password_file:
            pair = f"{self.url.user}:{self.place.secret(self._password_file)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        elif self._token_file:
            headers["Authorization"] = f"{self.scheme} {self.place.secret(self._token_file)}"
        request = urllib.request.Request(address, content.encode(), headers)
        try:
            with self._opener.open(request, timeout=_PATIENCE) as response:
                response.read(1)
        except urllib.error.HTTPError as error:
            with error:
                details = error.headers["Location"] or error.read(_DETAILS).decode("utf-8", "replace")
            raise ConnectionError(f"{error} {' '.join(details.split())}".strip()) from None


class Webhook(_Posting):
    """Posts JSON to a web server."""

    def write(self, answer: Answer) -> None:
        address = f"{self.url.kind}://{self.server}/{self.url.path}"
        self.post(address, json.dumps(answer), "application/json")


class InfluxSink(_Posting):
    """Writes to an InfluxDB: a database of version 1, or with org=ORG a bucket of version 2."""

    scheme = "Token"

    def __init__(self, url: Url, owner: Place) -> None:
        super().__init__(url, owner)
        if not url.path:
            raise InvalidInput(
                f"the sink influxdb://HOST/DATABASE needs a database or bucket, got {url.text!r}"
            )
        org = url.text_of("org", "")
        self._measurement = url.text_of("measurement", "gossamer")
        path = "api/v2/write" if org else "write"
        query = {"org": org, "bucket": url.path} if org else {"db": url.path}
        port = "" if url.port else ":8086"
        scheme = "https" if url.kind == "influxdbs" else "http"
        self._address = f"{scheme}://{self.server}{port}/{path}?{urlencode(query | {'precision': 'ms'})}"

    def write(self, answer: Answer) -> None:
        self.post(self._address, line_of(self._measurement, answer), "text/plain; charset=utf-8")


def line_of(measurement: str, answer: Answer) -> str:
    """Return an answer in the line protocol: numbers, flags and texts are fields; unknown values are left out."""
    fields = {}
    for name, value in answer.items():
        for k, part in enumerate(value) if isinstance(value, list) else [("", value)]:
            key = _tag(f"{name}_{k}" if k != "" else name)
            if isinstance(part, bool):
                fields[key] = str(part).lower()
            elif isinstance(part, int | float):
                fields[key] = repr(float(part))
            elif isinstance(part, str) and name not in ("time", "name", "fleet"):
                fields[key] = json.dumps(part, ensure_ascii=False)
    tags = "".join(
        f",{key}={_tag(str(answer[name]))}" for key, name in (("fleet", "fleet"), ("agent", "name"))
    )
    moment = datetime.fromisoformat(answer["time"]) if "time" in answer else datetime.now(UTC)
    content = ",".join(f"{key}={value}" for key, value in fields.items() if key != "agent")
    return f"{_tag(measurement)}{tags} {content} {round(1000 * moment.timestamp())}"


def _tag(text: str) -> str:
    return re.sub(r"([ ,=])", r"\\\1", text)
