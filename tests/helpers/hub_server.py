"""A Hub on this machine: what huggingface_hub asks about datasets, answered from memory, with faults."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_good"


@dataclass
class Repo:
    """A dataset: its files at the tip, whether it is private or gated, and its tags."""

    files: dict[str, bytes] = field(default_factory=dict)
    private: bool = False
    gated: bool = False
    tags: list[str] = field(default_factory=list)

    @property
    def sha(self) -> str:
        """The commit: a hash of the files."""
        return hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()


class Hub:
    """Datasets by name. `faults` (part of a path → statuses, or "cut", in order) are what its next answers do wrong.

    `asked` has the method, the path and the first byte asked for of each request.
    """

    def __init__(self) -> None:
        self.repos, self.faults = dict[str, Repo](), defaultdict[str, list[str]](list)
        self.asked: list[tuple[str, str, str]] = []
        self.address = ""

    def add(self, name: str, folder: Path) -> Repo:
        """A dataset with a folder's files."""
        files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        self.repos[name] = Repo(files)
        return self.repos[name]

    def downloads(self) -> set[str]:
        """The files that were asked for."""
        return {found[1] for _, path, _ in self.asked if (found := re.search(r"/resolve/[^/]+/(.*)", path))}

    def answer(self, ask: Any) -> None:
        """One answer."""
        path = unquote(urlsplit(ask.path).path)
        body = ask.rfile.read(int(ask.headers.get("Content-Length") or 0))
        self.asked.append((ask.command, path, ask.headers.get("Range", "")))
        fault = next((self.faults[part].pop(0) for part in self.faults if part in path and self.faults[part]), "")
        if fault.isdigit():
            return send(ask, int(fault), b"{}")
        signed = ask.headers.get("Authorization") == f"Bearer {TOKEN}"
        if path == "/api/whoami-v2":
            return send(ask, 200 if signed else 401, {"name": "me", "type": "user", "orgs": []})
        if path == "/api/repos/create":
            return self.create(ask, json.loads(body))
        if path == "/api/validate-yaml":
            header = yaml.safe_load(json.loads(body)["content"].split("---")[1])
            return send(ask, 200 if header["license"] else 400, {"errors": [], "warnings": []})
        found = re.fullmatch(r"(?:/api)?/datasets/([^/]+/[^/]+)(?:/(\w+)(?:/([^/]+)(?:/(.*))?)?)?", path)
        repo = self.repos.get(found[1]) if found else None
        if found is None or repo is None or (repo.private and not signed):
            return send(ask, 404 if signed else 401, b"{}", {"X-Error-Code": "RepoNotFound"})
        _, what, revision, rest = found.groups()
        if repo.gated:
            return send(ask, 403, b"{}", {"X-Error-Code": "GatedRepo"})
        if what in ("revision", "tree", "resolve") and revision not in ("main", repo.sha, *repo.tags):
            return send(ask, 404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        return getattr(self, f"on_{what or 'revision'}")(ask, found[1], repo, body, rest, fault)

    def create(self, ask: Any, wanted: dict[str, Any]) -> None:
        name = f"{wanted.get('organization') or 'me'}/{wanted['name']}"
        there = name in self.repos
        private = wanted.get("visibility") == "private" or bool(wanted.get("private"))  # newer and older libraries
        self.repos.setdefault(name, Repo(private=private))
        send(ask, 409 if there else 200, {"url": f"{self.address}/datasets/{name}", "name": name})

    def on_revision(self, ask: Any, name: str, repo: Repo, body: bytes, rest: str, fault: str) -> None:
        send(ask, 200, {"id": name, "sha": repo.sha, "private": repo.private, "tags": [], "siblings": []})

    def on_tree(self, ask: Any, name: str, repo: Repo, body: bytes, rest: str, fault: str) -> None:
        oids = {path: hashlib.sha1(data).hexdigest() for path, data in repo.files.items()}
        send(ask, 200, [{"type": "file", "path": p, "size": len(d), "oid": oids[p]} for p, d in repo.files.items()])

    def on_resolve(self, ask: Any, name: str, repo: Repo, body: bytes, rest: str, fault: str) -> None:
        if rest not in repo.files:
            return send(ask, 404, b"", {"X-Error-Code": "EntryNotFound"})
        data = repo.files[rest]
        headers = {"X-Repo-Commit": repo.sha, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}
        begin = re.match(r"bytes=(\d+)-", ask.headers.get("Range", ""))
        if begin and int(begin[1]):
            headers["Content-Range"] = f"bytes {begin[1]}-{len(data) - 1}/{len(data)}"
        first = int(begin[1]) if begin else 0
        return send(ask, 206 if first else 200, data[first:], headers, fault)

    def on_preupload(self, ask: Any, name: str, repo: Repo, body: bytes, rest: str, fault: str) -> None:
        asked = json.loads(body)["files"]
        send(ask, 200, {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]})

    def on_commit(self, ask: Any, name: str, repo: Repo, body: bytes, rest: str, fault: str) -> None:
        for change in map(json.loads, body.splitlines()):
            value = change["value"]
            if change["key"] == "file":
                repo.files[value["path"]] = base64.b64decode(value["content"])
            elif change["key"] == "deletedFile":
                del repo.files[value["path"]]
        url = f"{self.address}/datasets/{name}/commit/{repo.sha}"
        send(ask, 200, {"success": True, "commitOid": repo.sha, "commitUrl": url, "hookOutput": ""})

    def on_tag(self, ask: Any, name: str, repo: Repo, body: bytes, rest: str, fault: str) -> None:
        tag = json.loads(body)["tag"] if ask.command == "POST" else unquote(urlsplit(ask.path).path).rpartition("/")[2]
        if ask.command == "DELETE" and tag not in repo.tags:
            return send(ask, 404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        (repo.tags.append if ask.command == "POST" else repo.tags.remove)(tag)
        return send(ask, 200, b"{}")


def send(ask: Any, status: int, content: Any, headers: dict[str, str] | None = None, fault: str = "") -> None:
    """Send bytes, or JSON, or half of it."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    ask.send_response(status)
    for name, value in {"Content-Length": str(len(data)), "Connection": "close", **(headers or {})}.items():
        ask.send_header(name, value)
    ask.end_headers()
    ask.close_connection = True
    if ask.command != "HEAD":
        ask.wfile.write(data[: len(data) // 2] if fault == "cut" else data)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serves the Hub for the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version: ClassVar = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            hub.answer(self)

        do_HEAD = do_POST = do_DELETE = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
