"""A real vLLM server in a process of its own, on a CPU."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.http import get_json

# A seeded request whose prompt is read in parts ends vLLM's CPU engine ("CPU Generator does not use offset").
WHOLE_PROMPTS = ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192"]


def free_port() -> int:
    """A port below those that the system gives away by itself, so that nobody takes it before the server does."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(10_000, 30_000)))
            return int(probe.getsockname()[1])


class VLLMServer:
    """`vllm serve MODEL` with files allowed from `folder`; `options` are added to its command."""

    def __init__(self, model: Path, folder: Path, log: Path, *options: str) -> None:
        self.model, self.folder, self.log, self.options, self.port = model, folder, log, options, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *options: str) -> VLLMServer:
        """Start without waiting; `options` replace those given before."""
        self.options = options or self.options
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.model),
            "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32",
            "--enforce-eager", "--max-model-len", "4096", "--max-num-seqs", "8", *WHOLE_PROMPTS,
            "--limit-mm-per-prompt", '{"image": 0, "video": 1}', "--allowed-local-media-path", str(self.folder),
            *self.options,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env={**os.environ})
        return self

    def wait(self, timeout: float = 400) -> VLLMServer:
        """Wait until it answers; fails with the end of its log."""
        end = time.monotonic() + timeout
        while True:
            try:
                get_json(self.url, "/v1/models")
                return self
            except TempolocError as error:
                if time.monotonic() > end:
                    raise AssertionError(f"{error}\n{self.log.read_text()[-3000:]}") from None
            time.sleep(1)

    def kill(self) -> None:
        """As a crash would end it: at once, with its workers."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
