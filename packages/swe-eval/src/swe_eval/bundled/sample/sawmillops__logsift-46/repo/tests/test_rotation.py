import os
import tempfile
import unittest

from logsift import log_parts, read_log


class RotationTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.path = os.path.join(self.directory, "app.log")

    def write(self, name, text=""):
        with open(os.path.join(self.directory, name), "w") as file:
            file.write(text)

    def names(self):
        return [os.path.basename(part) for part in log_parts(self.path)]

    def test_numbers(self):
        for name in ("app.log", "app.log.1", "app.log.2"):
            self.write(name)
        self.assertEqual(self.names(), ["app.log.2", "app.log.1", "app.log"])

    def test_other_files_are_left_out(self):
        for name in ("app.log", "app.log.bak", "app.logs", "app.log.1.tmp", "web.log.1"):
            self.write(name)
        self.assertEqual(self.names(), ["app.log"])

    def test_without_current_file(self):
        self.write("app.log.1")
        self.assertEqual(self.names(), ["app.log.1"])

    def test_read(self):
        self.write("app.log.1", "2024-01-01T00:00:00 INFO a one\nmore\n")
        self.write("app.log", "2024-01-01T00:00:01 INFO a two\n")
        self.assertEqual([record.message for record in read_log(self.path)], ["one", "two"])

    def test_no_log(self):
        with self.assertRaises(FileNotFoundError):
            list(read_log(self.path))


if __name__ == "__main__":
    unittest.main()
