"""The staleness study in its shortest form: every variant trains, and table, JSON and SVG agree.

staleness_study_test.py PASSEL STUDY_SCRIPT
"""

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

PASSEL, STUDY = sys.argv[1:3]
SHORT = ("--problems", "adding", "--adding-steps", "5")


def study(out: Path, *options: str) -> subprocess.CompletedProcess:
    line = [sys.executable, STUDY, "--passel", PASSEL, "--out", str(out), *options]
    return subprocess.run(line, capture_output=True, text=True, check=False)


class StalenessStudy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "study"

    def test_runs_all_variants_and_writes_what_it_prints(self):
        done = study(self.out, *SHORT, "--seeds", "1", "--tickets", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads((self.out / "study.json").read_text())["adding"]["rows"]
        ordered = [row for row in rows if row["name"] in ("ordered 1", "ordered 3", "ordered 7")]
        self.assertEqual(len(ordered), 3)
        drawn = "".join(ET.parse(self.out / "adding.svg").getroot().itertext())
        for row in rows:
            self.assertEqual(row["failed"], 0)
            self.assertEqual(len(row["at_equal_samples"]), 1)
            self.assertIn(row["name"], done.stdout)
            self.assertIn(f"{row['at_equal_samples'][0]:.4f}", done.stdout)
            self.assertIn(row["name"], drawn)

    def test_refuses_a_folder_that_is_in_use(self):
        self.out.mkdir()
        (self.out / "mine").touch()
        done = study(self.out, *SHORT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("new or empty", done.stderr)

    def test_refuses_a_problem_it_does_not_know(self):
        done = study(self.out, "--problems", "adding,mnist")
        self.assertEqual(done.returncode, 2)
        self.assertIn("got mnist", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
