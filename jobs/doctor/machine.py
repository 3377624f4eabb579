"""What a machine must have: Python, Java and disk space; a sentence with the way out for each that is missing.

Runs on any Python 3 (it must be able to say that a Python is too old), so only the standard library and plain syntax.
"""

import os
import re
import shutil
import subprocess
import sys

PYTHONS = ((3, 11), (3, 13))
JAVAS = (17, 21)
"""Spark 4.1 runs on 17 and 21; Hadoop's client does not run on the versions after 23."""


class Missing(Exception):
    """A precondition that does not hold; the message is the sentence to print."""


def check_python(version=None):
    """Raise Missing unless this Python is one that both environments were resolved for."""
    version = version or sys.version_info[:3]
    if not PYTHONS[0] <= tuple(version[:2]) <= PYTHONS[1]:
        raise Missing(
            f"Python 3.11, 3.12 or 3.13 is needed, but {sys.executable} is {'.'.join(map(str, version))}: install one"
            " of them (Debian 12: apt-get install python3 python3-venv) or name it: make setup PYTHON=/path/python3.12"
        )


def java_command(environment=None):
    """The java that Spark will start: that of JAVA_HOME where it is set, else the one on the PATH; None if missing."""
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home:
        return os.path.join(home, "bin", "java")
    return shutil.which("java", path=environment.get("PATH", os.defpath))


def java_version(text):
    """Major version in the output of `java -version`, or None: '1.8.0_402' is 8, '17.0.15' is 17."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def check_java(environment=None):
    """Return the major version of the Java that Spark will start; Missing if there is none or Spark cannot use it."""
    command = java_command(environment)
    advice = "install it (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at one" + _installed()
    if command is None or not os.path.exists(command):
        where = "no java on the PATH" if command is None else "JAVA_HOME has no " + command
        raise Missing(f"Java 17 or 21 is needed, but there is {where}: {advice}")
    done = subprocess.run([command, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    version = java_version(done.stdout.decode("utf-8", "replace"))
    if version is None or not JAVAS[0] <= version <= JAVAS[1]:
        raise Missing(f"Java 17 or 21 is needed, but {command} is version {version or 'unknown'}: {advice}")
    return version


def check_disk(folder, need_gib):
    """Raise Missing unless the file system of `folder` has `need_gib` GiB free."""
    free = shutil.disk_usage(folder).free / 2**30
    if free < need_gib:
        raise Missing(
            f"{need_gib:.0f} GiB of free disk space are needed in {folder} for what is not yet set up, but"
            f" {free:.1f} GiB are there: free some, or clone to a larger disk"
        )


def _installed(root="/usr/lib/jvm"):
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    homes = [os.path.join(root, name) for name in names if re.search(r"(?<!\d)(17|21)(?!\d)", name)]
    fitting = [home for home in homes if os.path.exists(os.path.join(home, "bin", "java"))]
    return f" (here: JAVA_HOME={fitting[0]})" if fitting else ""
