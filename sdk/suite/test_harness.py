"""Tests of the harness itself: python3 -m unittest discover sdk/suite

The scenarios test the SDKs; these tests show that expectations can fail.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness.matching import Mismatch, check, expand, matches, resolve
from harness.scenarios import load

SUITE = Path(__file__).resolve().parent
BINARY = Path(os.environ.get("SELVEDGE_BINARY", SUITE.parent.parent / "target/debug/selvedge"))


class Matching(unittest.TestCase):
    def test_an_object_matches_one_with_more_fields(self):
        self.assertTrue(matches({"a": 1}, {"a": 1, "b": 2}))
        self.assertFalse(matches({"a": 1, "b": 2}, {"a": 1}))
        self.assertFalse(matches({"a": 1}, {"a": 2}))

    def test_a_list_matches_only_one_of_its_length_and_order(self):
        self.assertTrue(matches([1, {"a": 1}], [1, {"a": 1, "b": 2}]))
        self.assertFalse(matches([1, 2], [2, 1]))
        self.assertFalse(matches([1], [1, 2]))

    def test_truth_is_not_one_and_null_is_not_absent(self):
        self.assertFalse(matches(1, True))
        self.assertFalse(matches(False, 0))
        self.assertFalse(matches({"a": None}, {}))

    def test_operators_hold_and_fail(self):
        holds = [
            ({"$at_least": 2}, 2, 1),
            ({"$at_most": 2}, 2, 3),
            ({"$length": 2}, [1, 2], [1]),
            ({"$not": "active"}, "waiting", "active"),
            ({"$contains": "b"}, "abc", "xyz"),
            ({"$contains": {"a": 1}}, [{"a": 1, "b": 2}], [{"a": 2}]),
            ({"$unordered": [1, 2]}, [2, 1], [1, 1]),
        ]
        for operator, right, wrong in holds:
            with self.subTest(operator=operator):
                self.assertTrue(matches(operator, right))
                self.assertFalse(matches(operator, wrong))

    def test_a_mismatch_names_the_place(self):
        with self.assertRaisesRegex(Mismatch, r"result\.items\.1\.a: expected 1, found 2"):
            check({"items": [{}, {"a": 1}]}, {"items": [{}, {"a": 2}]}, "result")

    def test_variables_keep_their_type_alone_and_become_text_within_a_string(self):
        variables = {"run": {"n": 7, "items": ["x"]}}
        self.assertEqual(resolve({"a": "$run.n", "b": "/$run.n/y"}, variables), {"a": 7, "b": "/7/y"})
        self.assertEqual(resolve("$run.items.0", variables), "x")
        with self.assertRaisesRegex(Mismatch, r"\$run\.none"):
            resolve("$run.none", variables)

    def test_long_values_are_expanded(self):
        self.assertEqual(expand({"a": {"$repeat": ["xy", 2]}, "b": {"$times": [1, 3]}}), {"a": "xyxy", "b": [1, 1, 1]})


class Scenarios(unittest.TestCase):
    valid = {
        "description": "",
        "tasks": {"job": [{"do": "step", "name": "a", "actions": [{"do": "note", "note": "a"}]}]},
        "script": [{"do": "call", "call": "submit", "kind": "job", "as": "job"}],
        "expect": [{"notes": {"a": 1}}],
    }

    def load(self, **changes):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "one.json"
            path.write_text(json.dumps({**self.valid, **changes}))
            return load(path)

    def test_every_scenario_loads(self):
        self.assertEqual(self.load(), self.valid)
        for path in SUITE.glob("scenarios/*.json"):
            load(path)

    def test_unknown_words_are_refused(self):
        wrong = [
            {"tasks": {"job": [{"do": "step", "name": "a", "actions": [{"do": "notes", "note": "a"}]}]}},
            {"tasks": {"job": [{"do": "note", "note": "a", "valeu": 1}]}},
            {"script": [{"do": "call", "call": "submit", "kind": "job", "expct": {}}]},
            {"script": [{"do": "call", "call": "submitt", "kind": "job"}]},
            {"script": [{"do": "wait"}]},
            {"expect": [{"note": {"a": 1}}]},
            {"expect": []},
            {"expected": []},
        ]
        for changes in wrong:
            with self.subTest(changes=changes), self.assertRaisesRegex(ValueError, "one.json: "):
                self.load(**changes)


class Run(unittest.TestCase):
    def test_no_scenario_passes_with_an_adapter_that_does_nothing(self):
        environment = {**os.environ, "SELVEDGE_BINARY": str(BINARY)}
        command = [str(SUITE / "run"), "--adapter", "false"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("\n0 passed, ", done.stdout)


if __name__ == "__main__":
    unittest.main()
