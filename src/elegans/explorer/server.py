"""The server of the explorer's page: it only reads, trusts no host name, and by default answers only this machine."""

import asyncio
import contextlib
import copy
import importlib.resources
import io
import json
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elegans.errors import ElegansError, ExperimentError, StoreError, brief, printable
from elegans.explorer.cells import Cells
from elegans.explorer.compare import Comparison, compare
from elegans.explorer.details import cell_record, trials_table
from elegans.explorer.differences import difference_record, differences_in_words
from elegans.explorer.figures import as_json, has_theory, map_record, map_table, plain, title
from elegans.explorer.overview import overview
from elegans.explorer.parameters import parameters_record
from elegans.explorer.report import SCRIPTS
from elegans.explorer.several import MOST, several_record
from elegans.explorer.snippets import first_run
from elegans.explorer.statistics import STATISTICS
from elegans.explorer.trials import TrialsQuery, filtered, trials_csv, trials_page
from elegans.explorer.verdicts import PAUSE, Verdicts
from elegans.explorer.view import View
from elegans.store import Store
from elegans.store.export import write_csv

REFRESH_SECONDS = 0.25
"""Seconds for which what was read counts as fresh."""
EVENT_SECONDS = 1.0
"""Minimum seconds between two events of a store: each event costs a running sweep a few hundredths of a second."""
HEARTBEAT_SECONDS = 5.0
KEPT = 20
"""The number of answers that are kept, because computing one takes a second."""
ROWS = ("cell", "a", "b", "difference", "low", "high", "n", "paired")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "elegans"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Plotly styles its charts by inline styles; scripts come from this server alone, and none is evaluated from text."""
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/{name}": (name, "text/javascript; charset=utf-8") for name in SCRIPTS},
}


class Explored:
    """A store that is being explored.

    Args:
        place: where it is; in a folder, the store that a run is going to make there.

    Attributes:
        awaited: the file of a store that is not there yet.
    """

    store: Store
    cells: Cells
    verdicts: Verdicts

    def __init__(self, place: str) -> None:
        self.awaited = Path(place) / "runs.db" if "://" not in place and Path(place).is_dir() else None
        self._lock = threading.Lock()
        self._failure, self._failures = "", 0
        self._computing = threading.Lock()
        self._kept: dict[str, tuple[int, float, Any]] = {}
        if self.awaited is None:
            self._open(place)

    def _open(self, place: str) -> None:
        store = Store(place, create=False)
        try:
            self.cells = Cells(store)
        except BaseException:
            store.close()
            raise
        self.store, self.verdicts = store, Verdicts(store, self.cells)
        self._fresh, self.awaited = time.monotonic(), None

    def refresh(self) -> Cells:
        """Return the cells as of now or of a moment ago."""
        with self._lock:
            if self.awaited is not None:
                self._open(str(self.awaited))
            if time.monotonic() > self._fresh + REFRESH_SECONDS:
                try:
                    self.cells.refresh()
                except StoreError as error:
                    self._failures += str(error) != self._failure
                    self._failure = str(error)
                    raise
                self._fresh, self._failure = time.monotonic(), ""
            cells = copy.copy(self.cells)
            cells.analysed = self.verdicts.statistics
            return cells

    def overview(self) -> dict[str, Any]:
        """Return what the store holds, or that it is waited for."""
        try:
            cells = self.refresh()
        except StoreError as error:
            if self.awaited is None:
                raise
            name, command = printable(str(self.awaited.parent)), first_run(self.awaited)
            return {"name": name, "waiting": str(error), "command": command, "runs": []}
        return overview(self.store, cells, self.verdicts.latest())

    def having(self, statistic: str) -> Cells:
        """Return the same; a statistic that only an experiment's analysis gives is waited for."""
        cells = self.refresh()
        if statistic not in cells.statistics:
            self.verdicts.await_first()
            cells = self.refresh()
        return cells

    def kept(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return what was computed before, unless the store has changed and computing anew is due."""
        with self._computing:
            version, until, answer = self._kept.get(key, (-1, 0.0, None))
            if answer is None or (version != self.version and time.monotonic() > until):
                begun = time.monotonic()
                version, answer = self.version, compute()
                now = time.monotonic()
                self._kept = {
                    **dict(list(self._kept.items())[-KEPT:]),
                    key: (version, now + PAUSE * (now - begun), answer),
                }
            return answer

    @property
    def version(self) -> int:
        """Counts the changes of what the page shows, which may be that the store is lost."""
        return 0 if self.awaited else self.cells.version + self.verdicts.version + self._failures

    def close(self) -> None:
        """Release the store of a server for which nobody waits any longer."""
        if self.awaited is not None:
            return
        self.store.database.give_up()
        self.cells.close()
        self.store.close()


class Guard:
    """Answers only who may ask, with headers that keep a page from doing harm.

    On loopback the ``Host`` header must be this machine's: a foreign page whose name was made to resolve to it (DNS
    rebinding) sends its own name. Elsewhere a request must have the token.

    Args:
        app: what answers.
        hosts: the values of ``Host`` that are answered, or None for all.
        token: what a request must have, or None.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None, token: str | None) -> None:
        self.app, self.hosts, self.token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        token = request.query_params.get("token")
        refusal = self._refusal(request, token)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if refusal is None and self.token is not None and token is not None:
                    headers.append("set-cookie", f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/")
            await send(message)

        answer: ASGIApp = self.app if refusal is None else refusal
        await answer(scope, receive, with_headers)

    def _refusal(self, request: Request, token: str | None) -> Response | None:
        host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
        if self.hosts is not None and host not in self.hosts:
            return _error(f"a request must be to one of {', '.join(self.hosts)}: host={printable(host[:60])!r}", 400)
        if self.token is None:
            return None
        tokens = (token, request.cookies.get(COOKIE))
        if not any(text is not None and secrets.compare_digest(text.encode(), self.token.encode()) for text in tokens):
            return _error("a request must have the token of the address that the command has printed", 403)
        return None


def _cell(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise ExperimentError(f"a cell must be a number: {printable(text[:40])!r}")
    return int(text)


def _error(reason: str, status: int) -> Response:
    return JSONResponse({"error": printable(reason)}, status)


def _answer(value: Any) -> Response:
    return Response(json.dumps(value, allow_nan=False, separators=(",", ":")), media_type="application/json")


class Explorer:
    """The endpoints, over some stores.

    Args:
        stores: the stores, by their index.

    Attributes:
        closing: whether streams of changes end.
    """

    def __init__(self, stores: Sequence[Explored]) -> None:
        self.stores = stores
        self.closing = False

    def routes(self) -> list[Route]:
        """Return the endpoints."""
        answers: Mapping[str, Callable[[Request], Any]] = {
            "/api/overview": self.overview,
            "/api/map": self.map,
            "/api/compare": self.compare,
            "/api/curves": self.curves,
            "/api/parameters": self.parameters,
            "/api/trials": self.trials,
            "/api/csv": self.csv,
            "/api/cell/{cell}": self.cell,
        }
        return [
            *(Route(path, _file(*file)) for path, file in FILES.items()),
            Route("/plotly.js", _plotly),
            Route("/api/events", self.events),
            *(Route(path, _handled(answer)) for path, answer in answers.items()),
        ]

    def store(self, request: Request, name: str = "store") -> Explored:
        """Return the store that a request names by its index."""
        text = request.query_params.get(name) or "0"
        if not text.isdecimal() or len(text) > 6 or int(text) >= len(self.stores):
            raise ExperimentError(f"{name} must be from 0 to {len(self.stores) - 1}: {name}={printable(text[:40])!r}")
        return self.stores[int(text)]

    def overview(self, request: Request) -> Any:
        """Return all stores."""
        return {
            "stores": [
                {"index": index, **explored.overview(), "version": explored.version}
                for index, explored in enumerate(self.stores)
            ]
        }

    def mapped(self, request: Request) -> Cells:
        """Return the cells that a map is asked for, with its statistic where there is one of that name."""
        return self.store(request).having(request.query_params.get("stat") or "rate")

    def map(self, request: Request) -> Any:
        """Return the map of a view."""
        cells = self.mapped(request)
        view = View.parse(dict(request.query_params), cells)
        return {
            "version": cells.version,
            "view": view.record() | {"theories": has_theory(cells, view)},
            "query": view.query(),
            "title": title(cells, view),
            "figure": as_json(map_record(cells, view)),
        }

    def cell(self, request: Request) -> Any:
        """Return one cell."""
        explored, number = self.store(request), _cell(request.path_params["cell"])
        measure = request.query_params.get("measure") or None
        return cell_record(explored.store, explored.refresh(), number, measure=measure)

    def curves(self, request: Request) -> Any:
        """Return the curves of several cells."""
        explored, query = self.store(request), request.query_params
        numbers = [_cell(number) for number in (query.get("cells") or "").split(",")[: MOST + 1] if number]
        return several_record(explored.store, explored.refresh(), numbers, query.get("what") or None)

    def trials(self, request: Request) -> Any:
        """Return a page of all trials."""
        explored = self.store(request)
        cells = explored.refresh()
        return trials_page(explored.store, cells, TrialsQuery.parse(dict(request.query_params), cells))

    def parameters(self, request: Request) -> Any:
        """Return how much each parameter matters, or what is lacking."""
        explored, query = self.store(request), dict(request.query_params)
        stat = query.get("stat") or "rate"
        cells = explored.having(stat)
        View.parse({"stat": stat}, cells)
        shown = filtered(query, cells)

        def record() -> Any:
            try:
                return parameters_record(cells, stat, shown)
            except ExperimentError as lacking:  # which the store may come to have
                return {"explanation": [f"{lacking}."], "importance": None}

        return explored.kept(f"{stat} {np.packbits(shown).tobytes()!r}", record)

    def compared(self, request: Request) -> tuple[Cells, Comparison]:
        """Return a comparison, and the cells of its first store."""
        cells = self.store(request).refresh()
        other = self.store(request, "other").refresh() if request.query_params.get("other") else None
        return cells, compare(dict(request.query_params), cells, other)

    def compare(self, request: Request) -> Any:
        """Return a comparison as a figure and rows."""
        cells, comparison = self.compared(request)
        names = [name for name in map(str, comparison.rows) if name in (comparison.view.x, comparison.view.y)]
        words = differences_in_words(comparison.view, comparison.rows)
        rows = [
            {"columns": {name: row[name] for name in names}, **{name: row[name] for name in ROWS}, "words": said}
            for row, said in zip(comparison.rows.to_dict("records"), words, strict=True)
        ]
        figure = difference_record(cells, comparison.view, comparison.rows)
        unit = "points" if STATISTICS[comparison.view.stat].percent else ""
        record = {
            "title": comparison.title,
            "unit": unit,
            "sides": [comparison.a, comparison.b],
            "query": comparison.query(),
        }
        return {**record, "figure": as_json(figure), "rows": plain(rows)}

    def csv(self, request: Request) -> Response:
        """Return the numbers of a map, a cell or a comparison as CSV."""
        kind = request.query_params.get("kind") or "map"
        if kind == "map":
            cells = self.mapped(request)
            table = map_table(cells, View.parse(dict(request.query_params), cells))
        elif kind == "cell":
            explored = self.store(request)
            explored.refresh()
            table = trials_table(explored.store, _cell(request.query_params.get("cell") or ""))
        elif kind == "compare":
            table = self.compared(request)[1].rows
        elif kind == "trials":
            explored = self.store(request)
            cells = explored.refresh()
            table = trials_csv(explored.store, cells, TrialsQuery.parse(dict(request.query_params), cells))
        else:
            raise ExperimentError(f"kind must be map, cell, compare or trials: kind={printable(kind[:40])!r}")
        buffer = io.StringIO()
        write_csv(table, buffer)
        return Response(buffer.getvalue(), media_type="text/csv; charset=utf-8")

    async def events(self, request: Request) -> Response:
        """Return a stream of changes."""
        return StreamingResponse(self._changes(request), media_type="text/event-stream")

    async def _changes(self, request: Request) -> AsyncIterator[str]:
        versions = [explored.version for explored in self.stores]
        sent = [0.0] * len(versions)
        last = time.monotonic()
        yield "retry: 1000\n\n"
        while not self.closing and not await request.is_disconnected():
            for index, explored in enumerate(self.stores):
                if time.monotonic() < sent[index] + EVENT_SECONDS:
                    continue
                with contextlib.suppress(StoreError):  # counted as a change: the page's next request says so
                    await run_in_threadpool(explored.refresh)
                if explored.version != versions[index]:
                    versions[index], sent[index] = explored.version, time.monotonic()
                    last = sent[index]
                    yield f"event: change\ndata: {json.dumps({'store': index, 'version': versions[index]})}\n\n"
            if time.monotonic() > last + HEARTBEAT_SECONDS:
                last = time.monotonic()
                yield ": here\n\n"
            await asyncio.sleep(REFRESH_SECONDS)


def _handled(answer: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that computes its answer in a thread, errors in one line."""

    def compute(request: Request) -> Response:
        try:
            result: Any = answer(request)
            return result if isinstance(result, Response) else _answer(result)
        except StoreError as error:
            return _error(str(error), 503)
        except ElegansError as error:
            return _error(str(error), 400)
        except SystemExit as error:  # it would end the server's loop
            return _error(f"a class of your own ended the program: SystemExit: {error}", 500)

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(compute, request)

    return endpoint


def _file(name: str, kind: str) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        content = importlib.resources.files("elegans.explorer").joinpath("page", name).read_bytes()
        return Response(content, media_type=kind)

    return endpoint


def _plotly(request: Request) -> Response:
    """Return plotly's script, which the browser keeps as long as it is of the same version."""
    tag = f'"{version("plotly")}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    script = importlib.resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return Response(script, media_type="text/javascript; charset=utf-8", headers=headers)


def application(explorer: Explorer, hosts: Sequence[str] | None, token: str | None) -> ASGIApp:
    """Return the application: endpoints behind the guard."""

    def unknown(request: Request, error: Exception) -> Response:
        return _error(f"an address must be one of the explorer's: {printable(request.url.path[:60])}", 404)

    return Guard(Starlette(routes=explorer.routes(), exception_handlers={404: unknown}), hosts, token)


class Server:
    """A server of some stores, in a separate thread.

    Args:
        places: where the stores are.
        host: the interface that is listened on.
        port: the port; 0 for any free one.

    Raises:
        StoreError: a store cannot be read.
        ExperimentError: the address cannot be listened on.
    """

    def __init__(self, places: Sequence[str], host: str = "127.0.0.1", port: int = 0) -> None:
        if not host or not host.isprintable() or " " in host:  # sockets take '' for all interfaces
            raise ExperimentError(f"host must be the address of an interface: host={brief(host)!r}")
        local = host in ("127.0.0.1", "localhost", "::1")
        self.token = None if local else secrets.token_urlsafe(16)
        with contextlib.ExitStack() as opened:
            self.stores = [opened.enter_context(contextlib.closing(Explored(store))) for store in places]
            self.socket = _listening(host, port)
            opened.pop_all()
        number = self.socket.getsockname()[1]
        shown_host = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown_host}:{number}/" + (f"?token={self.token}" if self.token else "")
        self.explorer = Explorer(self.stores)
        app = application(self.explorer, LOOPBACK if local else None, self.token)
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(target=self._server.run, args=([self.socket],), daemon=True)

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.explorer.closing = True
        self._server.should_exit = True
        self._thread.join(timeout=3)
        for explored in self.stores:
            explored.close()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()  # who opens the address before the server is up waits for it
    except (
        OSError,
        ValueError,
        TypeError,
        OverflowError,
    ) as error:  # such as a name that has no form in IDNA, or no such port
        listener.close()
        said = (error.strerror if isinstance(error, OSError) else None) or brief(str(error))
        raise ExperimentError(
            f"a server must listen on a free address of this machine: {brief(host)}:{port} ({said})"
        ) from None
    return listener
