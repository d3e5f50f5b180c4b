"""One file over the network, going on where an earlier try stopped."""

import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

BLOCK = 2**20  # bytes


def download(url: str, part: Path, progress: bool) -> str:
    """Adds to `part` what it lacks. Returns why the network failed, or "" once it is whole."""
    try:
        _receive(url, part, progress)
    except urllib.error.HTTPError as error:
        return "" if error.code == 416 else f"HTTP {error.code} {error.reason}"  # 416: nothing is left to send
    except urllib.error.URLError as error:
        return str(error.reason)
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        return str(error) or type(error).__name__
    return ""


def _receive(url: str, part: Path, progress: bool) -> None:
    have = part.stat().st_size if part.is_file() else 0
    asked = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(url, headers={"User-Agent": "videopred"} | asked)
    with urllib.request.urlopen(request, timeout=30) as reply:
        have = have if reply.status == 206 else 0
        length = reply.headers.get("Content-Length")
        total = have + int(length) if length else None
        hidden = None if progress else True
        bar = tqdm(total=total, initial=have, unit="B", unit_scale=True, desc=part.stem, disable=hidden)
        with bar, open(part, "ab" if have else "wb") as file:
            while block := reply.read(BLOCK):
                file.write(block)
                bar.update(len(block))
    size = part.stat().st_size
    if total is not None and size < total:
        raise ConnectionError(f"it ended after {size} of {total} bytes")
